/* A table: the rows of a text, as palbert predict reads them, the names of its columns, and what is wrong with it. */

import { readRows, TableError } from "./page.csv.js";
import { counted } from "./page.dom.js";
import { markOf, separatorsOf } from "./page.separators.js";

export const NAMES = { ",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", "": "nothing: one column" };

/** Whether a file is named .tsv; such files have no quotes, as palbert reads and writes them. */
export function isTsv(name) {
  return name.toLowerCase().endsWith(".tsv");
}

/** Read a text. The separator is found unless it is given. */
export async function readTable({ text, name, encoding, separator = null }) {
  const plain = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  const tsv = isTsv(name);
  const fitting = separator === null ? separatorsOf(plain, tsv) : [separator];
  const { rows, lines } = await readRows(plain, fitting[0], !tsv);
  if (markOf(plain) !== null) for (const each of [rows, lines]) each.shift();
  if (!rows.length) throw new TableError("There are no rows in it.");
  return { text, name, encoding, separator: fitting[0], fitting, rows, lines };
}

/** Take the names of columns from the first row, or number them; note what keeps the rows from being answered. */
export function nameColumns(table, header) {
  const [first, ...rest] = table.rows;
  table.names = first.map((name, place) => (header && name) || `column ${place + 1}`);
  table.data = header ? rest : table.rows;
  table.problem = ambiguity(table) ?? excess(table);
}

function ambiguity({ name, fitting }) {
  if (fitting.length < 2) return null;
  const signs = fitting.map((sign) => NAMES[sign]).join(" or ");
  return { title: `${name}: its cells may be separated by ${signs}`, hint: "Choose below what separates them." };
}

/** A row with more cells than the first one: its texts may be cut, or stand in other columns than theirs. */
function excess({ name, rows, lines, names, separator }) {
  const row = rows.findIndex((cells) => cells.length > names.length);
  if (row < 0) return null;
  const title = `${name}, line ${lines[row]}: expected ${counted(names.length, "cell")}, found ${rows[row].length}`;
  if (names.length === 1) return { title, hint: "Name every column in the first line. If there is only one, choose below that nothing separates cells." };
  const sign = separator === "\t" ? "a tab" : `“${separator}”`;
  return { title, hint: `Write a cell with ${sign} in it in quotes, or choose below what separates cells.` };
}
