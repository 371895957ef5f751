/* The page: which run and tasks are asked, the texts that are typed, and the table that is answered. */

import { allowDialog, ask, fetchText, forgetKey, onKey, storedKey } from "./page.api.js";
import { showBias } from "./page.bias.js";
import { element, find, showProblem } from "./page.dom.js";
import { FileSection } from "./page.file.js";
import { Side } from "./page.side.js";

const QUIET = 900; // milliseconds after the last answer, then it is said to screen readers

class Page {
  constructor() {
    this.run = null;
    this.obstacle = null; // why there is no run
    this.kind = "single";
    this.chosen = new Set();
    this.sides = [new Side(this, 0, () => this.answered())];
    this.sides[0].first.id = "text"; // where the link at the top leads
    this.file = new FileSection(this);
    find("sides").append(this.sides[0].element);
    find("run").addEventListener("change", (event) => this.setRun(event.target.value));
    find("kinds").addEventListener("change", (event) => this.setKind(event.target.value));
    find("compare").addEventListener("click", () => this.toggleComparison());
    find("show-words").addEventListener("change", () => this.askAll());
    find("confidence").addEventListener("input", () => this.setConfidence());
    find("report").addEventListener("click", (event) => this.openReport(event));
    find("forget-key").addEventListener("click", () => forgetKey());
    onKey((there) => (find("forget-key").hidden = !there));
  }

  /** Read which runs and tasks there are. */
  async start() {
    this.obstacle = null;
    try {
      this.runs = (await ask("v1/tasks")).runs;
    } catch (error) {
      this.obstacle = error;
    }
    if (this.obstacle) {
      this.askAll();
      this.file.settle();
      return;
    }
    find("run").replaceChildren(...this.runs.map(({ name }) => element("option", { value: name }, name)));
    find("run-choice").hidden = this.runs.length < 2;
    const first = this.runs.find((run) => run.default) ?? this.runs[0];
    find("run").value = first.name;
    this.setRun(first.name);
    document.documentElement.dataset.ready = "yes";
  }

  /** Show why something cannot be asked, with a button to try it again, after the dialog was cancelled too. */
  showObstacle(place, problem, retry) {
    const again = () => {
      allowDialog();
      if (this.run) retry();
      else this.start();
    };
    const keyless = problem.status === 401; // the server's hint is for programs
    const button = element("button", { type: "button", click: again }, keyless ? "Enter a key" : "Try again");
    showProblem(place, { ...problem, hint: keyless ? "" : problem.hint }, button);
  }

  setRun(name) {
    this.run = this.runs.find((run) => run.name === name);
    const tasks = Object.entries(this.run.tasks);
    const kinds = new Set(tasks.map(([, task]) => task.kind));
    document.title = `${name} – palbert`;
    find("title").textContent = `Ask ${name}`;
    const fingerprint = this.run.fingerprint ?? "";
    find("facts").textContent = [this.run.encoder, fingerprint && `weights ${fingerprint.slice(0, 8)}`].filter(Boolean).join(" · ");
    find("facts").title = fingerprint;
    find("report").hidden = !this.run.report;
    find("report").href = `report/${encodeURIComponent(name)}`;
    showBias(this.run.bias);
    find("kinds").hidden = kinds.size < 2;
    this.chosen = new Set(tasks.map(([task]) => task));
    for (const side of this.sides) side.reset();
    this.file.setRun();
    this.setKind(kinds.has(this.kind) ? this.kind : [...kinds][0] ?? "single");
  }

  setKind(kind) {
    this.kind = kind;
    for (const radio of find("kinds").querySelectorAll("input")) radio.checked = radio.value === kind;
    for (const side of this.sides) side.setKind(kind, this.sides.length > 1);
    this.showTasks();
    this.showExamples();
    this.askAll();
  }

  /** Ask with another threshold; one that cannot be met or is no number is said, and counts as none. */
  setConfidence() {
    const { valid } = find("confidence").validity;
    find("confidence-problem").textContent = valid ? "" : "Expected a number from 0 to 100; until then, all answers are given.";
    find("confidence").setAttribute("aria-invalid", String(!valid));
    for (const side of this.sides) side.later();
  }

  tasksOfKind() {
    return Object.entries(this.run.tasks).filter(([, task]) => task.kind === this.kind);
  }

  askedTasks() {
    return this.tasksOfKind().map(([name]) => name).filter((name) => this.chosen.has(name));
  }

  /** What every question has: the run and the options. */
  question({ words = find("show-words").checked } = {}) {
    const question = { run: this.run.name };
    if (words) question.explain = "gradient-input";
    const sure = find("confidence");
    if (sure.value !== "" && sure.validity.valid) question.min_confidence = Number(sure.value) / 100;
    return question;
  }

  showTasks() {
    const boxes = this.tasksOfKind().map(([name]) => {
      const box = element("input", { type: "checkbox", value: name, checked: this.chosen.has(name) });
      box.addEventListener("change", () => {
        if (box.checked) this.chosen.add(name);
        else this.chosen.delete(name);
        this.askAll();
      });
      return element("label", { class: "chip" }, box, element("span", {}, name));
    });
    find("tasks").replaceChildren(...boxes);
  }

  /** Offer the tasks' examples; those of all tasks in turn, so that each has some. */
  showExamples() {
    const lists = this.tasksOfKind().map(([, task]) => task.examples ?? []);
    const longest = Math.max(0, ...lists.map((list) => list.length));
    const mixed = Array.from({ length: longest }, (_, place) => lists.map((list) => list[place])).flat().filter(Boolean);
    const texts = new Map(mixed.map((example) => [JSON.stringify(example), [example].flat()]));
    const buttons = [...texts.values()].slice(0, 5).map((example) => {
      const take = () => {
        const side = this.sides.findLast((each) => each.texts.every((text) => !text.trim())) ?? this.sides[0];
        side.texts = example;
        side.now();
      };
      return element("button", { type: "button", class: "example", click: take, title: example.join("\n") }, example.join(" ↔ "));
    });
    find("examples").replaceChildren(...buttons);
    find("examples-row").hidden = !buttons.length;
  }

  askAll() {
    for (const side of this.sides) side.now();
  }

  toggleComparison() {
    const compared = this.sides.length === 1;
    if (compared) {
      const side = new Side(this, 1, () => this.answered());
      this.sides.push(side);
      find("sides").append(side.element);
      side.clear("Answers appear here, with their differences from the first.");
      side.first.focus();
    } else {
      const [, side] = this.sides.splice(1);
      side?.stop();
      find("sides").lastElementChild.remove();
    }
    for (const side of this.sides) side.setKind(this.kind, compared);
    find("sides").classList.toggle("two", compared);
    find("compare").setAttribute("aria-pressed", String(compared));
    find("compare").textContent = compared ? "Stop comparing" : "Compare with another text";
  }

  /** Show differences, and say the answers when they have settled. */
  answered() {
    const [first, second] = this.sides;
    second?.compareWith(first.result);
    clearTimeout(this.saying);
    this.saying = setTimeout(() => {
      const said = this.sides.map((side) => side.said()).filter(Boolean);
      find("said").textContent = said.length > 1 ? `First. ${said[0]}. Second. ${said[1]}.` : said.join("");
    }, QUIET);
  }

  /** With a key, fetch the report with it, and hand it to a window of its own; a link cannot carry a key. */
  async openReport(event) {
    if (storedKey() === null) return;
    event.preventDefault();
    const address = event.currentTarget.getAttribute("href");
    const opened = window.open("page.report.html", "_blank");
    const ready = new Promise((resolve) => {
      addEventListener("message", function listen({ source, data }) {
        if (source !== opened || data !== "palbert-report-ready") return;
        removeEventListener("message", listen);
        resolve();
      });
    });
    try {
      const [report] = await Promise.all([fetchText(address), ready]);
      opened.postMessage(report, "*"); // the window is sandboxed: its origin has no name
    } catch (error) {
      opened?.close();
      showProblem(find("problem"), error);
    }
  }
}

new Page().start();
