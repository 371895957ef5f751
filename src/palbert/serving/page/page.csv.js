/* Tables as text: read and written with quotes, any line ends, and any sign between cells. */

const AT_ONCE = 10; // milliseconds of work, then the page gets its turn
// As palbert's own files are written: behind spaces and quotes, which some programs remove, and in full width.
const FORMULA = /^[\s'"]*[=+\-@\t\r\n＝＋－＠]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

export class TableError extends Error {}

/** Turn the bytes of a file into text; files that are not Unicode are read as Windows-1252, and that is said. */
export function decode(bytes) {
  const starts = (...mark) => mark.every((value, place) => bytes[place] === value);
  if (starts(0xff, 0xfe)) return { text: new TextDecoder("utf-16le").decode(bytes), encoding: "UTF-16" };
  if (starts(0xfe, 0xff)) return { text: new TextDecoder("utf-16be").decode(bytes), encoding: "UTF-16" };
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(bytes), encoding: "UTF-8" };
  } catch {
    return { text: new TextDecoder("windows-1252").decode(bytes), encoding: "Windows-1252" };
  }
}

/** Give the rows of a text one after the other, each with the line it begins on; empty lines are left out. */
export function* rowsOf(text, separator, quotes = true) {
  const between = separator.charCodeAt(0);
  let place = 0;
  let line = 1;
  const endOfCell = (from) => {
    let end = from;
    for (; end < text.length; end += 1) {
      const code = text.charCodeAt(end);
      if (code === between || code === 10 || code === 13) break;
    }
    return end;
  };
  while (place < text.length) {
    const cells = [];
    const [start, begin] = [place, line];
    let blank = false;
    for (;;) {
      let cell = "";
      if (quotes && text[place] === '"') {
        const close = closingQuote(text, place, line);
        cell = text.slice(place + 1, close).replaceAll('""', '"');
        line += cell.match(/\r\n?|\n/g)?.length ?? 0;
        place = close + 1;
      }
      const end = endOfCell(place);
      cells.push(cell + text.slice(place, end));
      blank = end === start;
      place = end + 1;
      if (text.charCodeAt(end) !== between) {
        if (text[end] === "\r" && text[place] === "\n") place += 1;
        break;
      }
    }
    line += 1;
    if (!blank) yield { cells, line: begin };
  }
}

function closingQuote(text, open, line) {
  for (let close = text.indexOf('"', open + 1); close >= 0; close = text.indexOf('"', close + 2)) {
    if (text[close + 1] !== '"') return close;
  }
  throw new TableError(`Line ${line}: a cell begins with a quote that is never closed.`);
}

/** Read all rows, and the lines they begin on; the page stays usable meanwhile. */
export async function readRows(text, separator, quotes = true) {
  const [rows, lines] = [[], []];
  let since = performance.now();
  for (const { cells, line } of rowsOf(text, separator, quotes)) {
    rows.push(cells);
    lines.push(line);
    if (rows.length % 200 === 0 && performance.now() - since > AT_ONCE) {
      await pause();
      since = performance.now();
    }
  }
  return { rows, lines };
}

/** Write rows as the parts of a file. Without quotes, cells have spaces for what would end them. */
export async function writeRows(rows, separator, { safe = false, quotes = true } = {}) {
  const parts = ["\ufeff"]; // spreadsheet programs read UTF-8 only with this mark
  let since = performance.now();
  for (let from = 0; from < rows.length; from += 500) {
    parts.push(rows.slice(from, from + 500).map((row) => row.map((cell) => written(cell, separator, safe, quotes)).join(separator) + "\r\n").join(""));
    if (performance.now() - since > AT_ONCE) {
      await pause();
      since = performance.now();
    }
  }
  return parts;
}

function written(cell, separator, safe, quotes) {
  let text = String(cell ?? "");
  if (safe && FORMULA.test(text) && !NUMBER.test(text)) text = `'${text}`;
  if (!quotes) return text.replace(/[\r\n]+/g, " ").replaceAll(separator, " ");
  const quoted = text.includes(separator) || /["\r\n]|^\s|\s$/.test(text);
  return quoted ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Let the page draw and react. */
export function pause() {
  return new Promise((resolve) => setTimeout(resolve));
}
