/* Tables as text: read and written with quotes, any line ends, and commas, semicolons or tabs between cells. */

const SEPARATORS = [",", ";", "\t"];
const SAMPLE = 65_536; // characters that the separator is guessed from
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

/** Give the rows of a text one after the other, each as an array of cells; lines without any text are left out. */
export function* rowsOf(text, separator, quotes = true) {
  const between = separator.charCodeAt(0);
  let place = text.charCodeAt(0) === 0xfeff ? 1 : 0;
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
    const row = [];
    for (;;) {
      let cell = "";
      if (quotes && text[place] === '"') {
        const close = closingQuote(text, place, line);
        cell = text.slice(place + 1, close).replaceAll('""', '"');
        for (let found = cell.indexOf("\n"); found >= 0; found = cell.indexOf("\n", found + 1)) line += 1;
        place = close + 1;
      }
      const end = endOfCell(place);
      row.push(cell + text.slice(place, end));
      place = end + 1;
      if (text.charCodeAt(end) !== between) {
        if (text[end] === "\r" && text[place] === "\n") place += 1;
        break;
      }
    }
    line += 1;
    if (row.length > 1 || row[0] !== "") yield row;
  }
}

function closingQuote(text, open, line) {
  for (let close = text.indexOf('"', open + 1); close >= 0; close = text.indexOf('"', close + 2)) {
    if (text[close + 1] !== '"') return close;
  }
  throw new TableError(`Line ${line}: a cell begins with a quote that is never closed.`);
}

/** Guess what stands between cells: what gives every one of the first rows the most cells. */
export function guessSeparator(text, quotes = true) {
  const whole = text.length <= SAMPLE;
  const widths = SEPARATORS.map((separator) => {
    const found = [];
    try {
      for (const row of rowsOf(text.slice(0, SAMPLE), separator, quotes)) {
        found.push(row.length);
        if (found.length > 20) break;
      }
    } catch {
      /* a quote beyond the sample, or of another separator: the rows before it count */
    }
    if (!whole && found.length > 1) found.pop(); // it may be cut
    return found.length ? Math.min(...found) : 0;
  });
  return SEPARATORS[widths.indexOf(Math.max(...widths))];
}

/** Read all rows; the page stays usable meanwhile. */
export async function readRows(text, separator, quotes = true) {
  const rows = [];
  let since = performance.now();
  for (const row of rowsOf(text, separator, quotes)) {
    rows.push(row);
    if (rows.length % 200 === 0 && performance.now() - since > AT_ONCE) {
      await pause();
      since = performance.now();
    }
  }
  return rows;
}

/** Write rows as the parts of a file. */
export async function writeRows(rows, separator, { safe = false } = {}) {
  const parts = ["\ufeff"]; // spreadsheet programs read UTF-8 only with this mark
  let since = performance.now();
  for (let from = 0; from < rows.length; from += 500) {
    parts.push(rows.slice(from, from + 500).map((row) => row.map((cell) => written(cell, separator, safe)).join(separator) + "\r\n").join(""));
    if (performance.now() - since > AT_ONCE) {
      await pause();
      since = performance.now();
    }
  }
  return parts;
}

function written(cell, separator, safe) {
  let text = String(cell ?? "");
  if (safe && FORMULA.test(text) && !NUMBER.test(text)) text = `'${text}`;
  const quoted = text.includes(separator) || /["\r\n]|^\s|\s$/.test(text);
  return quoted ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Let the page draw and react. */
export function pause() {
  return new Promise((resolve) => setTimeout(resolve));
}
