/* Answer cards: what one task says about one text, updated in place while somebody types. */

import { decimals, element, percent, showProblem, signed } from "./page.dom.js";
import { explanationView } from "./page.words.js";

const MOST = 8; // classes that are shown with a bar

/** One task's answer. `explain` is called with the task's name when somebody asks for the exact explanation. */
export class Card {
  constructor(name, task, explain) {
    this.name = name;
    this.task = task;
    this.exactly = task.kind === "pair" ? "Explain exactly, and show which words belong together" : "Explain exactly";
    this.heading = element("h3", { class: "answer" });
    this.notes = element("div", { class: "card-notes small" });
    this.chart = element("div", { class: "chart" });
    this.words = element("div");
    this.bars = new Map();
    this.exact = element("button", { type: "button", class: "plain exact", click: () => explain(this) }, this.exactly);
    this.problem = element("div", { role: "alert" });
    const task_name = element("p", { class: "kicker" }, element("span", { class: "task-name" }, name), scoreOf(task));
    this.element = element(
      "article",
      { class: "card", "aria-label": `Answer of ${name}` },
      task_name, this.heading, this.notes, this.chart, this.words, this.exact, this.problem,
    );
  }

  /** Show an answer to texts; `other` is the answer that it is compared with. */
  show(texts, answer, other = null) {
    this.answer = answer;
    this.heading.textContent = saidAnswer(answer, this.task);
    this.heading.classList.toggle("none", Boolean(answer.abstained));
    this.notes.replaceChildren(...notesOf(answer));
    if (answer.probabilities) this.showBars(answer, other);
    else if (typeof answer.prediction === "number") this.showNumber(answer, other);
    showProblem(this.problem, null);
    this.showWords(texts, answer.explanation ?? null);
    this.setExact(this.exactly, false);
  }

  /** Show the differences to another answer, or none. */
  compare(other) {
    if (!this.answer) return;
    if (this.answer.probabilities) this.showBars(this.answer, other);
    else if (typeof this.answer.prediction === "number") this.showNumber(this.answer, other);
  }

  showWords(texts, explanation) {
    this.words.replaceChildren(...(explanation ? [explanationView(texts, explanation)] : []));
  }

  /** Say what the button does; it stays where it is, so that the focus does. */
  setExact(text, busy) {
    this.exact.textContent = text;
    this.exact.setAttribute("aria-disabled", String(busy));
  }

  showBars(answer, other) {
    const chosen = new Set([answer.prediction].flat());
    const shares = Object.entries(answer.probabilities);
    const most = shares.length <= MOST ? shares : [...shares].sort((one, two) => two[1] - one[1]).slice(0, MOST);
    const names = most.map(([name]) => name);
    if (names.join("\0") !== [...this.bars.keys()].join("\0")) {
      this.bars = new Map(names.map((name) => [name, newBar(name)]));
      this.chart.replaceChildren(...[...this.bars.values()].map((bar) => bar.element));
      if (shares.length > MOST) {
        this.chart.append(element("p", { class: "muted small" }, `and ${shares.length - MOST} less likely classes`));
      }
    }
    for (const [name, share] of most) {
      const before = other?.probabilities?.[name];
      this.bars.get(name).update(share, chosen.has(name), before === undefined ? null : share - before);
    }
  }

  showNumber(answer, other) {
    const before = typeof other?.prediction === "number" ? answer.prediction - other.prediction : null;
    this.scale ??= newScale(this.name, this.task.range);
    if (this.scale.element.parentNode !== this.chart) this.chart.replaceChildren(this.scale.element);
    this.scale.update(answer.prediction, before);
  }
}

/** The answer in words. */
export function saidAnswer(answer, task) {
  if (answer.abstained || answer.prediction === null) return "No answer";
  if (Array.isArray(answer.prediction)) return answer.prediction.length ? answer.prediction.join(", ") : "none of them";
  if (typeof answer.prediction !== "number") return String(answer.prediction);
  return task.range ? `${decimals(answer.prediction)} of ${task.range[1]}` : decimals(answer.prediction);
}

function notesOf(answer) {
  const notes = [];
  if (answer.abstained) notes.push("Not sure enough of any answer.");
  if (answer.cut) notes.push("The text is longer than the model reads: its end was cut off.");
  return notes.map((note) => element("p", { class: "flag" }, note));
}

function scoreOf(task) {
  if (typeof task.score !== "number") return null;
  const [low, high] = task.interval ?? [];
  const range = low === undefined ? "" : ` (95 % interval ${decimals(low, 3)} to ${decimals(high, 3)})`;
  const rows = task.rows ? ` on ${task.rows.toLocaleString("en")} rows` : "";
  return element("span", { class: "muted", title: `${task.metric} ${decimals(task.score, 3)}${range}${rows}` }, ` ${task.metric} ${decimals(task.score, 3)}`);
}

function newBar(name) {
  const fill = element("span", { class: "fill" });
  const meter = element("div", { class: "bar", role: "meter", "aria-label": name, "aria-valuemin": "0", "aria-valuemax": "100" }, fill);
  const share = element("span", { class: "share" });
  const change = element("span", { class: "change" });
  const row = element("div", { class: "bar-row" }, element("span", { class: "bar-name" }, name), meter, share, change);
  return {
    element: row,
    update(value, chosen, difference) {
      fill.style.width = `${(value * 100).toFixed(2)}%`;
      meter.setAttribute("aria-valuenow", (value * 100).toFixed(1));
      meter.setAttribute("aria-valuetext", percent(value));
      share.textContent = percent(value);
      row.classList.toggle("chosen", chosen);
      showChange(change, difference === null ? null : difference * 100, 0);
    },
  };
}

function newScale(name, range) {
  const [low, high] = range ?? [null, null];
  const marker = element("span", { class: "marker" });
  const share = element("span", { class: "share" });
  const change = element("span", { class: "change" });
  const limits = range ? { "aria-valuemin": String(low), "aria-valuemax": String(high) } : {};
  const line = element("div", { class: "scale", role: "meter", "aria-label": name, ...limits }, marker);
  const row = element("div", { class: "scale-row" });
  if (range) row.append(element("span", { class: "muted small" }, String(low)), line, element("span", { class: "muted small" }, String(high)));
  row.append(change);
  return {
    element: row,
    update(value, difference) {
      if (range) marker.style.left = `${(Math.min(Math.max((value - low) / (high - low), 0), 1) * 100).toFixed(2)}%`;
      line.setAttribute("aria-valuenow", value.toFixed(3));
      line.setAttribute("aria-valuetext", decimals(value));
      share.textContent = decimals(value);
      showChange(change, difference, 2);
    },
  };
}

/** Show how an answer differs from the one it is compared with: by a sign, an arrow and a colour. */
function showChange(place, difference, digits) {
  if (difference === null) {
    place.textContent = "";
    return;
  }
  const text = signed(difference, digits);
  const same = text === (0).toFixed(digits);
  place.textContent = same ? "=" : `${difference > 0 ? "▲" : "▼"} ${text}`;
  place.title = same ? "as for the first text" : `${text}${digits ? "" : " percentage points"} compared with the first text`;
  place.className = `change ${same ? "" : difference > 0 ? "more" : "less"}`;
}
