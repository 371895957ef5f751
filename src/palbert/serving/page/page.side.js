/* A side: a text or a pair that is typed, and its answers. Only the latest question's answer is ever shown. */

import { ask, Problem } from "./page.api.js";
import { Card, saidAnswer } from "./page.cards.js";
import { element, find, showProblem } from "./page.dom.js";

const PAUSE = 180; // milliseconds without a key, then the text is asked about

export class Side {
  /** `page` has what is asked: its run, kind, tasks and options. `changed` is called when answers have come. */
  constructor(page, number, changed) {
    this.page = page;
    this.number = number;
    this.changed = changed;
    this.element = find("side").content.firstElementChild.cloneNode(true);
    const part = (selector) => this.element.querySelector(selector);
    this.name = part(".side-name");
    [this.first, this.second] = [part(".first"), part(".second")];
    this.secondField = part(".second-field");
    this.firstName = part(".field-name");
    this.problem = part(".side-problem");
    this.hint = part(".hint");
    this.place = part(".cards");
    this.cards = new Map();
    this.asked = 0;
    for (const field of [this.first, this.second]) field.addEventListener("input", () => this.later());
  }

  get texts() {
    return this.page.kind === "pair" ? [this.first.value, this.second.value] : [this.first.value];
  }

  set texts([first, second = ""]) {
    this.first.value = first;
    this.second.value = second;
  }

  /** Show fields for one text or two, and say which side this is while two are compared. */
  setKind(kind, compared) {
    const [pair, place] = [kind === "pair", ["First", "Second"][this.number]];
    this.secondField.hidden = !pair;
    this.firstName.textContent = pair ? "First text" : compared ? `${place} text` : "Text";
    this.name.textContent = `${place} pair`;
    this.name.hidden = !(pair && compared);
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", compared ? `${place} ${pair ? "pair" : "text"} of two` : "Question and answers");
  }

  later() {
    this.stop();
    this.timer = setTimeout(() => this.now(), PAUSE);
  }

  /** Forget a question that waits or is on its way. */
  stop() {
    clearTimeout(this.timer);
    this.controller?.abort();
    this.asked += 1;
    this.element.classList.remove("asking");
  }

  /** Ask about the texts as they are. */
  async now() {
    this.stop();
    if (!this.page.run) {
      if (this.page.obstacle) this.fail(this.page.obstacle);
      return; // it is asked once there is a run
    }
    const number = this.asked;
    const texts = this.texts;
    const tasks = this.page.askedTasks();
    if (!tasks.length || texts.some((text) => !text.trim())) {
      this.clear(tasks.length ? "Answers appear here as you type." : "Choose a task above.");
      return;
    }
    this.controller = new AbortController();
    this.element.classList.add("asking");
    try {
      const body = { ...this.page.question(), tasks, texts: [this.page.kind === "pair" ? texts : texts[0]] };
      const { results } = await ask("v1/predict", body, { signal: this.controller.signal });
      if (number === this.asked) this.show(texts, results[0]);
    } catch (error) {
      if (number === this.asked && error.name !== "AbortError") this.fail(error);
    } finally {
      if (number === this.asked) this.element.classList.remove("asking");
    }
  }

  show(texts, result) {
    if (result.error) {
      this.fail(new Problem(result.error));
      return;
    }
    this.fail(null);
    this.hint.hidden = true;
    this.shownTexts = texts;
    this.result = result;
    const names = Object.keys(result);
    for (const name of names) {
      if (!this.cards.has(name)) {
        this.cards.set(name, new Card(name, this.page.run.tasks[name], (card) => this.explain(card)));
      }
      this.cards.get(name).show(texts, result[name]);
    }
    const wanted = names.map((name) => this.cards.get(name).element);
    const there = [...this.place.children];
    if (wanted.length !== there.length || wanted.some((card, place) => card !== there[place])) {
      this.place.replaceChildren(...wanted);
    }
    this.changed(this);
  }

  /** Show a problem in place of answers. A server that is busy is asked again when it says so. */
  fail(problem) {
    showProblem(this.problem, problem);
    if (!problem) return;
    this.empty();
    this.hint.hidden = true;
    if (problem.status === 401 || !this.page.run) {
      this.page.showObstacle(this.problem, problem, () => this.page.askAll());
    } else if (problem.status === 429 || problem.status === 503) {
      const seconds = Math.min(Math.max(problem.retryAfter ?? 2, 0.2), 60);
      this.problem.firstElementChild.append(element("p", { class: "small" }, `Asking again in ${Math.ceil(seconds)} s.`));
      this.timer = setTimeout(() => this.now(), seconds * 1000);
    }
    this.changed(this);
  }

  clear(hint) {
    showProblem(this.problem, null);
    this.empty();
    this.hint.textContent = hint;
    this.hint.hidden = false;
    this.changed(this);
  }

  empty() {
    this.result = null;
    this.place.replaceChildren();
  }

  /** Forget the cards too: another run may have other tasks of the same names. */
  reset() {
    this.stop();
    this.cards.clear();
    this.empty();
  }

  /** Show how the answers differ from another side's, or stop doing so. */
  compareWith(result) {
    if (!this.result) return;
    for (const name of Object.keys(this.result)) this.cards.get(name).compare(result?.[name] ?? null);
  }

  /** Ask for the explanation whose scores add up, and for a pair's words that belong together. */
  async explain(card) {
    if (card.exact.getAttribute("aria-disabled") === "true") return;
    const [number, texts] = [this.asked, this.shownTexts];
    card.setExact("Explaining …", true);
    try {
      const pair = texts.length > 1;
      const body = {
        run: this.page.run.name, task: card.name, texts: [pair ? texts : texts[0]], method: "integrated-gradients",
      };
      const answer = await ask("v1/explain", { ...body, interactions: pair }, { signal: this.controller.signal });
      if (number !== this.asked) return;
      const [result] = answer.results;
      if (result.error) throw new Problem(result.error);
      card.showWords(texts, result);
      card.setExact("Explained exactly", true);
    } catch (error) {
      if (number !== this.asked || error.name === "AbortError") return;
      showProblem(card.problem, error);
      card.setExact(card.exactly, false);
    }
  }

  /** The answers as a sentence, for people who do not see them. */
  said() {
    if (!this.result) return "";
    return Object.entries(this.result)
      .map(([name, answer]) => `${name}: ${saidAnswer(answer, this.page.run.tasks[name])}`)
      .join("; ");
  }
}
