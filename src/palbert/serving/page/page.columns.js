/* Columns of a table: those that have the texts, and those that answers add. */

import { percent } from "./page.dom.js";

/** The columns that are added, each as its name and what it takes from a row's result. */
export function answerColumns(tasks, asked, answers) {
  const given = answers.filter((result) => result && !result.error);
  const columns = [];
  for (const name of asked) {
    const of = (get) => (result) => (result.error ? "" : get(result[name]));
    columns.push([asked.length > 1 ? name : "prediction", of(plain)]);
    if (asked.length === 1) {
      for (const label of tasks[name].classes ?? []) columns.push([`p(${label})`, of((answer) => answer.probabilities?.[label] ?? "")]);
    }
    const known = (field) => given.some((result) => result[name]?.[field] !== undefined && result[name][field] !== null);
    if (known("abstained")) columns.push([asked.length > 1 ? `${name} abstained` : "abstained", of((answer) => String(answer.abstained ?? ""))]);
    if (given.some((result) => result[name]?.cut)) columns.push([asked.length > 1 ? `${name} cut` : "cut", of((answer) => String(Boolean(answer.cut)))]);
  }
  columns.push(["error", (result) => result.error?.detail ?? result.error?.title ?? ""]);
  return columns;
}

/** An answer as a cell: lists as palbert writes them, nothing where no answer was sure enough. */
function plain(answer) {
  if (answer.prediction === null || answer.prediction === undefined) return "";
  return Array.isArray(answer.prediction) ? answer.prediction.join("|") : answer.prediction;
}

/** An answer in a line of the preview. */
export function said(answer) {
  if (!answer) return "";
  if (answer.abstained) return "no answer";
  const share = answer.probabilities?.[answer.prediction];
  const value = typeof answer.prediction === "number" ? answer.prediction.toFixed(2) : plain(answer);
  return share === undefined ? value : `${value} (${percent(share)})`;
}

/** A name that no column has yet. */
export function fresh(title, names) {
  let name = title;
  for (let number = 2; names.includes(name); number += 1) name = `${title} ${number}`;
  return name;
}

/** Return the two columns with the longest texts, the longest first; numbers are no texts. */
export function textColumns(rows, width) {
  const some = rows.slice(0, 50);
  const length = (column) => {
    const cells = some.map((row) => row[column] ?? "");
    return cells.every((cell) => cell === "" || Number.isFinite(Number(cell))) ? 0 : cells.join("").length;
  };
  const lengths = Array.from({ length: width }, (_, column) => length(column));
  return [...lengths.keys()].sort((one, other) => lengths[other] - lengths[one]).slice(0, 2);
}
