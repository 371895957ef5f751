/* The table section: a CSV file is read here, its rows are answered, and it is given back with the answers. */

import { answerColumns, fresh, said, textColumns } from "./page.columns.js";
import { decode, pause, writeRows } from "./page.csv.js";
import { counted, element, find, percent, showProblem } from "./page.dom.js";
import { answerRows } from "./page.rows.js";
import { isTsv, NAMES, nameColumns, readTable } from "./page.table.js";

const LARGEST = 200_000_000; // bytes; browsers keep a table of this size, but not many times
const PREVIEW = 6; // rows
const LONGEST = 160; // characters of a cell in the preview

export class FileSection {
  constructor(page) {
    this.page = page;
    this.table = null;
    this.running = null;
    find("file").addEventListener("change", (event) => this.takeFile(event.target.files[0]));
    find("paste").addEventListener("paste", (event) => {
      event.preventDefault(); // a field that holds a long table is slow
      this.take(event.clipboardData.getData("text/plain"), "pasted.csv");
    });
    find("paste").addEventListener("input", (event) => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => event.target.value.trim() && this.take(event.target.value, "pasted.csv"), 600);
    });
    // A file that misses the field must not replace the page.
    document.addEventListener("dragover", (event) => this.drag(event, true));
    document.addEventListener("dragleave", (event) => this.drag(event, false));
    document.addEventListener("drop", (event) => {
      if (!this.drag(event, false)) return;
      this.takeFile(event.dataTransfer.files[0]);
    });
    for (const id of ["file-task", "column-0", "column-1"]) find(id).addEventListener("change", () => this.settle());
    find("separator").replaceChildren(...Object.entries(NAMES).map(([value, text]) => element("option", { value }, text)));
    find("separator").addEventListener("change", (event) => this.read({ ...this.table, separator: event.target.value }));
    find("header").addEventListener("change", () => this.readNames());
    find("start").addEventListener("click", () => this.start());
    find("cancel").addEventListener("click", () => this.running?.abort());
    find("download").addEventListener("click", () => this.download());
  }

  /** Offer the run's tasks: each alone, and all that take the same texts. */
  setRun() {
    this.running?.abort();
    const tasks = Object.entries(this.page.run.tasks);
    const choices = tasks.map(([name]) => [JSON.stringify([name]), name]);
    for (const kind of ["single", "pair"]) {
      const names = tasks.filter(([, task]) => task.kind === kind).map(([name]) => name);
      if (names.length > 1) choices.push([JSON.stringify(names), `all ${kind === "pair" ? "for pairs" : "for single texts"}: ${names.join(", ")}`]);
    }
    find("file-task").replaceChildren(...choices.map(([value, text]) => element("option", { value }, text)));
    if (this.table) this.settle();
  }

  drag(event, over) {
    if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return false;
    event.preventDefault();
    find("drop").classList.toggle("over", over);
    return true;
  }

  async takeFile(file) {
    if (!file) return;
    find("file").value = ""; // the same file can be chosen again
    if (file.size > LARGEST) {
      this.fail({ title: `${file.name} is too large for this page`, detail: `It has ${Math.round(file.size / 1e6)} MB; at most ${LARGEST / 1e6} MB fit.`, hint: "Use palbert predict --input for such files." });
      return;
    }
    try {
      const { text, encoding } = decode(new Uint8Array(await file.arrayBuffer()));
      await this.take(text, file.name, encoding);
    } catch (error) {
      this.fail({ title: `${file.name} could not be read`, detail: error.message });
    }
  }

  fail(problem) {
    this.running?.abort();
    this.table = null;
    find("table").hidden = true;
    showProblem(find("file-problem"), problem);
  }

  take(text, name, encoding = "UTF-8") {
    find("header").checked = true;
    return this.read({ text, name, encoding });
  }

  /** Read a table, with the separator that is given or found. */
  async read(source) {
    this.running?.abort();
    showProblem(find("file-problem"), null);
    const reading = (this.reading = {});
    try {
      const table = await readTable(source);
      if (reading !== this.reading) return; // another table was chosen meanwhile
      this.table = table;
      find("separator").value = table.separator;
      this.readNames();
    } catch (error) {
      if (reading === this.reading) this.fail({ title: `${source.name} could not be read as a table`, detail: error.message });
    }
  }

  /** Take the names of columns from the first row, or number them; then guess which columns have the texts. */
  readNames() {
    nameColumns(this.table, find("header").checked);
    for (const place of [0, 1]) {
      const options = this.table.names.map((name, column) => element("option", { value: column }, name));
      find(`column-${place}`).replaceChildren(...options);
    }
    this.pair = null; // columns are guessed for the kind of task that is asked
    this.settle();
  }

  /** Show the choice of columns and the first rows; answers to another question are forgotten. */
  settle() {
    if (!this.table) return;
    find("table").hidden = !this.page.run;
    if (!this.page.run) {
      if (this.page.obstacle) this.page.showObstacle(find("file-problem"), this.page.obstacle);
      return; // the table is shown once there is a run
    }
    this.tasks = JSON.parse(find("file-task").value);
    const pair = this.page.run.tasks[this.tasks[0]].kind === "pair";
    if (pair !== this.pair) {
      const best = textColumns(this.table.data, this.table.names.length);
      const chosen = pair ? [...best].sort((one, other) => one - other) : best;
      for (const place of [0, 1]) find(`column-${place}`).value = String(chosen[place] ?? chosen[0]);
    }
    this.pair = pair;
    find("column-1-label").hidden = !this.pair;
    find("column-0-label").firstElementChild.textContent = this.pair ? "First text column" : "Text column";
    this.columns = (this.pair ? [0, 1] : [0]).map((place) => Number(find(`column-${place}`).value));
    this.answers = [];
    find("download").hidden = true;
    find("progress-row").hidden = true;
    const { data, names, separator, encoding, name, problem } = this.table;
    showProblem(find("file-problem"), problem);
    const apart = names.length > 1 ? `, separated by ${NAMES[separator] ?? `“${separator}”`}` : "";
    const coded = encoding === "UTF-8" ? "" : `, read as ${encoding}`;
    find("table-facts").textContent = `${name}: ${counted(data.length, "row")}, ${counted(names.length, "column")}${apart}${coded}`;
    find("start").textContent = data.length === 1 ? "Answer the row" : `Answer all ${data.length.toLocaleString("en")} rows`;
    find("start").disabled = !data.length || problem !== null;
    find("start").classList.add("primary");
    this.showPreview();
  }

  showPreview() {
    const { data, names } = this.table;
    const added = this.answers.length ? this.tasks : [];
    const head = [
      ...names.map((name, column) => element("th", { scope: "col", class: this.columns.includes(column) ? "asked" : null }, name)),
      ...added.map((task) => element("th", { scope: "col" }, task)),
    ];
    const rows = data.slice(0, PREVIEW).map((row, number) => {
      const result = this.answers[number];
      const cells = names.map((_, column) => element("td", { class: this.columns.includes(column) ? "asked" : null }, shortened(row[column] ?? "")));
      const answers = added.map((task) => {
        const text = result?.error ? `error: ${result.error.detail ?? result.error.title}` : result ? said(result[task]) : "…";
        return element("td", { class: result?.error ? "bad" : "strong" }, shortened(text));
      });
      return element("tr", {}, ...cells, ...answers);
    });
    find("preview").replaceChildren(element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
  }

  async start() {
    this.running?.abort();
    const running = (this.running = new AbortController());
    const { data } = this.table;
    this.answers = new Array(data.length);
    this.done = this.failed = 0;
    this.note = "";
    this.began = performance.now();
    this.lock(true);
    showProblem(find("file-problem"), null);
    find("file-said").textContent = `Answering ${counted(data.length, "row")}.`;
    const question = { ...this.page.question({ words: false }), tasks: this.tasks };
    let outcome = "Done";
    try {
      await pause();
      const texts = data.map((row) => {
        const cells = this.columns.map((column) => row[column] ?? "");
        return this.pair ? cells : cells[0];
      });
      await answerRows(texts, question, {
        signal: running.signal,
        answered: (from, results) => running === this.running && this.answered(from, results),
        waiting: (seconds) => running === this.running && this.wait(seconds),
      });
    } catch (error) {
      outcome = error.name === "AbortError" ? "Cancelled" : "Stopped";
      if (error.name !== "AbortError" && running === this.running) this.stopFor(error);
    }
    if (running === this.running) this.finish(outcome);
  }

  stopFor(problem) {
    if (problem.status === 401) this.page.showObstacle(find("file-problem"), problem, () => this.start());
    else showProblem(find("file-problem"), problem);
  }

  answered(from, results) {
    results.forEach((result, place) => (this.answers[from + place] = result));
    this.done += results.length;
    this.failed += results.filter((result) => result.error).length;
    this.note = "";
    if (from < PREVIEW) this.showPreview();
    this.showProgress();
  }

  wait(seconds) {
    this.note = ` The server is busy; it is asked again in ${Math.ceil(seconds)} s.`;
    find("file-said").textContent = this.note;
    this.showProgress();
  }

  showProgress(outcome = "") {
    const total = this.table.data.length;
    find("progress").max = Math.max(total, 1);
    find("progress").value = this.done;
    const failures = this.failed ? `, ${counted(this.failed, "error")}` : "";
    const seconds = ((performance.now() - this.began) / 1000 / this.done) * (total - this.done);
    const left = this.done && this.done < total ? `, about ${duration(seconds)} left` : "";
    const count = `${this.done.toLocaleString("en")} of ${counted(total, "row")}`;
    const share = ` (${percent(total ? this.done / total : 1)})`;
    find("progress-text").textContent = outcome ? `${outcome}: ${count}${failures}.` : `${count}${share}${failures}${left}.${this.note}`;
  }

  finish(outcome) {
    this.running = null;
    this.lock(false);
    this.showPreview();
    this.showProgress(outcome);
    find("file-said").textContent = find("progress-text").textContent;
    find("download").hidden = !this.done;
    find("start").classList.toggle("primary", !this.done);
    if (this.done) find("download").focus();
  }

  lock(running) {
    for (const id of ["file-task", "column-0", "column-1", "separator", "header", "start"]) find(id).disabled = running;
    find("start").hidden = running;
    find("cancel").hidden = !running;
    find("progress-row").hidden = false;
    if (running) {
      find("download").hidden = true;
      find("cancel").focus();
      this.showProgress();
    }
  }

  /** Give back the table: its own columns, then the answers, as palbert predict writes them, then each row's error. */
  async download() {
    const { data, names, separator, name } = this.table;
    const added = answerColumns(this.page.run.tasks, this.tasks, this.answers);
    const rows = [[...names, ...added.map(([title]) => fresh(title, names))]];
    for (const [number, row] of data.entries()) {
      const result = this.answers[number];
      const own = names.map((_, column) => row[column] ?? "");
      rows.push([...own, ...added.map(([, value]) => (result ? value(result) : ""))]);
    }
    const tsv = isTsv(name);
    const parts = await writeRows(rows, separator || ",", { safe: find("safe").checked, quotes: !tsv });
    const address = URL.createObjectURL(new Blob(parts, { type: tsv ? "text/tab-separated-values" : "text/csv" }));
    const [, stem, suffix = ".csv"] = /^(.*?)(\.[^.]*)?$/s.exec(name);
    element("a", { href: address, download: `${stem}.answers${suffix}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }
}

function shortened(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
}

function duration(seconds) {
  if (seconds < 90) return `${Math.max(Math.round(seconds), 1)} s`;
  return `${Math.round(seconds / 60)} min`;
}
