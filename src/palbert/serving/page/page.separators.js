/* Which sign stands between cells: found in the header and the first rows, as palbert predict finds it. */

import { rowsOf } from "./page.csv.js";

const SAMPLE = 65_536; // characters that are looked at
const CANDIDATES = [",", ";", "|"]; // they also occur in texts; a tab in the header needs no further look
const MARK = /^"?sep=([^\p{L}\p{N}_"])"?(?=[\r\n]|$)/iu;

/** The separator that a line in front of the header names, as some spreadsheet programs write it. */
export function markOf(text) {
  return MARK.exec(text)?.[1] ?? null;
}

/** Return the separators that fit best: usually one, "" for a single column, and several if nothing decides. */
export function separatorsOf(text, tsv = false) {
  const sample = text.slice(0, SAMPLE);
  const mark = markOf(sample);
  if (mark !== null) return [mark];
  const [header] = /^[^\r\n]*/.exec(sample);
  if (header.includes("\t")) return ["\t"];
  const usual = tsv ? "\t" : ",";
  const widths = new Map(CANDIDATES.map((sign) => [sign, widthsOf(sample, sign, !tsv)]));
  const present = CANDIDATES.filter((sign) => header.includes(sign));
  if (!present.length) return [tsv ? "\t" : ofOneColumn(sample, widths)];
  if (present.length === 1 && present[0] === usual) return present;
  const shares = new Map(present.map((sign) => [sign, share(widths.get(sign))]));
  const fitting = present.filter((sign) => shares.get(sign) === 1);
  if (tsv) return fitting.length === 1 && widths.get(fitting[0]).length > 1 ? fitting : ["\t"]; // its name says tabs
  if (fitting.length > 1) return fitting;
  const best = present.reduce((one, other) => (shares.get(other) > shares.get(one) ? other : one));
  if (shares.get(best) >= 0.5 && shares.get(best) > (shares.get(usual) ?? 0)) return [best];
  return [present.includes(usual) ? usual : ""];
}

/** The separator of a table with one name in its header: commas in its texts are no separators. */
function ofOneColumn(sample, widths) {
  if (Math.max(1, ...widths.get(",")) === 1) return ",";
  for (const sign of [...CANDIDATES, "\t"]) {
    const [, ...rows] = widths.get(sign) ?? widthsOf(sample, sign, true);
    const most = Math.max(0, ...rows);
    if (rows.length > 1 && most > 1 && Math.min(...rows) === most) return sign; // the header lacks names
  }
  return "";
}

/** The number of cells of each row, header first, if this were the separator. */
function widthsOf(sample, separator, quotes) {
  const widths = [];
  try {
    for (const { cells } of rowsOf(sample, separator, quotes)) widths.push(cells.length);
  } catch {
    return widths; // a quote is closed beyond the sample, or never; the rows before it count
  }
  if (sample.length === SAMPLE && widths.length > 1) widths.pop(); // it may be cut
  return widths;
}

/** The share of rows that have as many cells as the header, if that has several. */
function share([header = 1, ...rows]) {
  if (header === 1) return 0;
  return rows.length ? rows.filter((width) => width === header).length / rows.length : 1;
}
