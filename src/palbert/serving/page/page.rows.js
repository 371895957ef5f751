/* Many rows: sent a few at a time, again when the server is busy, each with its own answer or error. */

import { ask } from "./page.api.js";

const ROWS = 64; // per request
const CHARACTERS = 200_000; // per request, far below what a server takes
const AT_ONCE = 2; // requests
const TRIES = 4; // for a request that the server fails on
const PATIENCE = 40; // for a request that the server puts off

/** Cut rows into pieces that a request can hold, as [from, to). */
export function* pieces(texts, rows = ROWS, characters = CHARACTERS) {
  let from = 0;
  let size = 0;
  for (let row = 0; row < texts.length; row += 1) {
    const length = [texts[row]].flat().join("").length;
    if (row > from && (row - from >= rows || size + length > characters)) {
      yield [from, row];
      from = row;
      size = 0;
    }
    size += length;
  }
  if (from < texts.length) yield [from, texts.length];
}

/**
 * Ask about all texts. `answered` is called with a row's number and the results from there on, `waiting` with the
 * seconds until the server wants to be asked again. Stops with an error if no further row can be answered.
 */
export async function answerRows(texts, question, { signal, answered, waiting }) {
  const left = pieces(texts);
  let notBefore = 0;

  const answerPiece = async (from, to) => {
    let failures = 0;
    let delays = 0;
    for (;;) {
      await until(() => notBefore, signal);
      try {
        const { results } = await ask("v1/predict", { ...question, texts: texts.slice(from, to) }, { signal });
        answered(from, results);
        return;
      } catch (error) {
        if (error.name === "AbortError") throw error;
        const { status } = error;
        if ((status === 429 || status === 503) && delays < PATIENCE) {
          delays += 1;
          const seconds = Math.min(Math.max(error.retryAfter ?? 2 ** Math.min(delays, 5), 0.1), 120);
          notBefore = Math.max(notBefore, Date.now() + seconds * 1000);
          waiting(seconds);
        } else if ((status === 0 || status >= 500) && failures + 1 < TRIES) {
          failures += 1;
          await until(() => Date.now() + 500 * 2 ** failures, signal, true);
        } else if ((status === 413 || status === 422) && to - from > 1) {
          // too long, or more rows than this server takes at once
          const middle = (from + to) >> 1;
          await answerPiece(from, middle);
          await answerPiece(middle, to);
          return;
        } else if (status === 0 || status === 401 || status === 403 || status === 429 || status === 503) {
          throw error; // the next piece would fare no better
        } else {
          answered(from, Array.from({ length: to - from }, () => ({ error: asError(error) })));
          return;
        }
      }
    }
  };
  const worker = async () => {
    for (const [from, to] of left) await answerPiece(from, to); // all workers take from the same pieces
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

function asError(problem) {
  const id = problem.requestId ? ` (request ${problem.requestId})` : "";
  return { title: problem.title, detail: `${problem.detail || problem.title}${id}` };
}

/** Wait until a moment that may move further away meanwhile; with `fixed`, until the moment it is now. */
async function until(moment, signal, fixed = false) {
  let end = moment();
  while (Date.now() < end) {
    await sleep(Math.min(end - Date.now(), 250), signal);
    if (!fixed) end = moment();
  }
  signal.throwIfAborted();
}

function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal.addEventListener("abort", stop, { once: true });
  });
}

