/* Requests to the server: problems as it describes them, and a key when it asks for one. */

import { find } from "./page.dom.js";

const STORE = "palbert-key";
let inMemory = null; // where the browser keeps nothing, for example in a frame without storage
let dialogOpen = null;
let declined = false;
const listeners = [];

/** What went wrong, in words that can be shown. */
export class Problem extends Error {
  constructor({ title, detail = "", hint = "", status = 0, requestId = "", retryAfter = null }) {
    super(detail || title);
    Object.assign(this, { title, detail, hint, status, requestId, retryAfter });
  }
}

export function storedKey() {
  try {
    return sessionStorage.getItem(STORE) ?? inMemory;
  } catch {
    return inMemory;
  }
}

function keep(key) {
  inMemory = key;
  try {
    if (key === null) sessionStorage.removeItem(STORE);
    else sessionStorage.setItem(STORE, key);
  } catch {
    /* kept in memory only */
  }
  for (const listener of listeners) listener(key !== null);
}

export function forgetKey() {
  keep(null);
}

/** Call a function with whether there is a key, now and whenever that changes. */
export function onKey(listener) {
  listeners.push(listener);
  listener(storedKey() !== null);
}

/** Let the dialog open again after it was cancelled. */
export function allowDialog() {
  declined = false;
}

/** Send a body as JSON, or nothing, and return the answer's JSON. */
export async function ask(path, body = undefined, { signal } = {}) {
  const response = await send(path, body, signal);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "The server’s answer could not be read", detail: `${path} did not answer with JSON.` });
  }
}

/** Fetch a page of the server, with the key. */
export async function fetchText(path) {
  return (await send(path)).text();
}

async function send(path, body, signal) {
  for (;;) {
    const key = storedKey();
    const response = await answerOf(path, body, key, signal);
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status !== 401) throw problem;
    if (storedKey() !== key) continue; // another request has got a key in the meantime
    await newKey(problem, key !== null);
  }
}

async function answerOf(path, body, key, signal) {
  const headers = { Accept: "application/json" };
  if (key !== null) headers["Authorization"] = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const request = { method: body === undefined ? "GET" : "POST", headers, signal, credentials: "same-origin" };
  if (body !== undefined) request.body = JSON.stringify(body);
  try {
    return await fetch(path, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({
      title: "The server does not answer",
      detail: "It may have been stopped, or the connection is gone.",
    });
  }
}

async function problemOf(response) {
  const requestId = response.headers.get("X-Request-Id") ?? "";
  const given = { title: response.statusText || "The server refused", status: response.status, requestId };
  const retryAfter = secondsOf(response.headers.get("Retry-After"));
  try {
    const { title = given.title, detail = "", hint = "", request_id: id = requestId } = await response.json();
    return new Problem({ ...given, title, detail: asText(detail), hint: asText(hint), requestId: id, retryAfter });
  } catch {
    return new Problem({ ...given, detail: `Status ${response.status}.`, retryAfter });
  }
}

function asText(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Read Retry-After: seconds, or a date. */
function secondsOf(header) {
  if (!header) return null;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(seconds, 0);
  const until = Date.parse(header);
  return Number.isNaN(until) ? null : Math.max((until - Date.now()) / 1000, 0);
}

/** Open the dialog, once for all requests that wait for it. */
async function newKey(problem, refused) {
  if (declined) throw problem;
  dialogOpen ??= askForKey(problem, refused).finally(() => (dialogOpen = null));
  if (!(await dialogOpen)) {
    declined = true;
    throw problem;
  }
}

function askForKey(problem, refused) {
  const dialog = find("key-dialog");
  const input = find("key");
  find("key-reason").textContent = refused
    ? "The key was not accepted. Enter another one."
    : problem.detail || "This server answers only with a key.";
  input.value = "";
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    let given = false;
    find("key-form").onsubmit = (event) => {
      event.preventDefault();
      const key = input.value.trim();
      if (!/^[\x21-\x7e]+$/.test(key)) {
        find("key-reason").textContent = "A key has letters, digits and signs of ASCII, and no spaces.";
        return;
      }
      given = true;
      keep(key);
      dialog.close();
    };
    find("key-cancel").onclick = () => dialog.close();
    dialog.onclose = () => {
      input.value = "";
      resolve(given);
    };
  });
}
