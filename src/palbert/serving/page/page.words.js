/* Explanations: the words of a text, marked by what they did to the answer; the words of a pair that belong together. */

import { decimals, element, signed } from "./page.dom.js";

const WEAK = 0.1; // of the strongest word's score: below, a word is not underlined

/** Show an explanation over its texts. */
export function explanationView(texts, explanation) {
  const view = element("div", { class: "explanation" });
  const strongest = Math.max(...explanation.words.map((word) => Math.abs(word.score)), 0);
  const shown = explanation.words.map((word) => markedWord(word, strongest));
  const interactions = explanation.interactions;
  view.append(element("p", { class: "caption muted small" }, ...captionOf(explanation)));
  const partners = interactions ? element("p", { class: "partners small", role: "status", "aria-live": "polite" }) : null;
  texts.forEach((text, column) => {
    const name = texts.length > 1 ? ["First text", "Second text"][column] : "Text";
    const line = element("p", { class: "words", dir: "auto", role: "group", "aria-label": `${name}, its words marked` });
    fillLine(line, text, explanation.words, shown, column);
    view.append(line);
  });
  if (interactions) {
    view.classList.add("with-partners");
    partners.textContent = `Point at a word, or move to it with Tab and the arrow keys, to see its partners.${leftOut(interactions)}`;
    view.append(partners);
    pairWords(view, partners, shown, explanation);
  }
  view.append(element("p", { class: "small muted" }, summaryOf(explanation.words)), scoreList(explanation));
  return view;
}

/** Say what is explained and how far to trust it. */
function captionOf(explanation) {
  const raises = explanation.target ? `for “${explanation.target}”` : "raises the number";
  const lowers = explanation.target ? "against it" : "lowers it";
  const facts = {
    "gradient-input": "a quick look, from one gradient",
    "integrated-gradients": "integrated gradients",
    occlusion: "each word masked in turn",
  };
  const parts = [facts[explanation.method] ?? explanation.method];
  if (explanation.steps !== null && explanation.steps !== undefined) parts.push(`${explanation.steps} steps`);
  const error = explanation.completeness_error;
  if (error !== null && error !== undefined) parts.push(`scores add up within ${decimals(error * 100, 1)} %`);
  return [
    element("span", { class: "word for key" }, raises),
    " ",
    element("span", { class: "word against key" }, lowers),
    ` · ${parts.join(", ")}`,
  ];
}

function markedWord(word, strongest) {
  const strength = strongest > 0 ? Math.abs(word.score) / strongest : 0;
  const classes = ["word", word.score < 0 ? "against" : "for"];
  if (strength < WEAK) classes.push("weak");
  const shown = element("span", { class: classes.join(" "), title: `${word.text}: ${signed(word.score)}` });
  shown.style.setProperty("--strength", (strength * 0.6).toFixed(3));
  return shown;
}

/** Write a text with its words marked; what stands between them, or was not read by the model, stays as it is. */
function fillLine(line, text, words, shown, column) {
  const characters = Array.from(text); // places are those of whole characters, not of UTF-16 units
  let end = 0;
  words.forEach((word, index) => {
    if (word.column !== column || word.start < end) return;
    line.append(characters.slice(end, word.start).join(""));
    shown[index].textContent = characters.slice(word.start, word.end).join("");
    line.append(shown[index]);
    end = word.end;
  });
  const rest = characters.slice(end).join("");
  if (rest.trim() && end) line.append(element("span", { class: "unread", title: "Not read by the model" }, rest));
  else line.append(rest);
}

function summaryOf(words) {
  const sorted = [...words].sort((one, other) => other.score - one.score);
  const most = sorted.filter((word) => word.score > 0).slice(0, 2);
  const least = sorted.filter((word) => word.score < 0).slice(-2).reverse();
  const named = (some) => some.map((word) => `“${word.text}” ${signed(word.score)}`).join(", ");
  const parts = [];
  if (most.length) parts.push(`Most for it: ${named(most)}.`);
  if (least.length) parts.push(`Most against it: ${named(least)}.`);
  return parts.join(" ");
}

/** All scores as a table, filled when it is opened. */
function scoreList(explanation) {
  const details = element("details", { class: "more" }, element("summary", {}, "All scores"));
  details.addEventListener(
    "toggle",
    () => {
      const rows = explanation.words.map((word) =>
        element("tr", {}, element("th", { scope: "row" }, word.text), element("td", { class: "right" }, signed(word.score, 3))),
      );
      const what = explanation.target ? `log odds of ${explanation.target}` : "the number before it is clipped";
      details.append(
        element("p", { class: "small muted" }, `Shares of the ${what}: ${signed(explanation.output)}, without its words ${signed(explanation.baseline)}.`.replace("the the", "the")),
        element("table", { class: "scores", "aria-label": "Scores of the words" }, element("tbody", {}, ...rows)),
      );
    },
    { once: true },
  );
  return details;
}

function leftOut(interactions) {
  return interactions.left_out ? ` The table has the words that matter most; ${interactions.left_out} are left out.` : "";
}

/** Let a word of one text show what it does together with each word of the other. */
function pairWords(view, partners, shown, explanation) {
  const { first, second, values } = explanation.interactions;
  const strongest = Math.max(...values.flat().map(Math.abs), 1e-9);
  const hint = partners.textContent;
  let pinned = null;

  const show = (index) => {
    clear();
    if (index === null) return;
    const found = partnersOf(index);
    view.classList.add("pairing");
    shown[index].classList.add("chosen");
    for (const { other, value } of found) {
      const place = shown[other];
      place.classList.add("partner", value < 0 ? "parts" : "joins");
      place.style.setProperty("--tie", ((Math.abs(value) / strongest) ** 2 * 0.6).toFixed(3));
    }
    const named = [...found].sort((one, two) => Math.abs(two.value) - Math.abs(one.value)).slice(0, 4);
    const list = named.map(({ other, value }) => `“${explanation.words[other].text}” ${signed(value)}`).join(", ");
    partners.textContent = `“${explanation.words[index].text}” together with: ${list}.`;
  };
  const partnersOf = (index) => {
    const row = first.indexOf(index);
    if (row >= 0) return second.map((other, column) => ({ other, value: values[row][column] }));
    const column = second.indexOf(index);
    return first.map((other, place) => ({ other, value: values[place][column] }));
  };
  const clear = () => {
    view.classList.remove("pairing");
    partners.textContent = hint;
    for (const word of shown) word.classList.remove("chosen", "partner", "parts", "joins");
  };

  for (const side of [first, second]) {
    const inOrder = [...side].sort((one, other) => one - other);
    inOrder.forEach((index, place) => {
      const word = shown[index];
      word.setAttribute("role", "button");
      word.tabIndex = place === 0 ? 0 : -1; // one stop per text; arrow keys move between words
      word.setAttribute("aria-pressed", "false");
      word.addEventListener("mouseenter", () => show(index));
      word.addEventListener("mouseleave", () => show(pinned));
      word.addEventListener("focus", () => show(index));
      word.addEventListener("blur", () => show(pinned));
      const pin = () => {
        pinned = pinned === index ? null : index;
        for (const each of [...first, ...second]) shown[each].setAttribute("aria-pressed", String(each === pinned));
        show(pinned ?? index);
      };
      word.addEventListener("click", pin);
      word.addEventListener("keydown", (event) => {
        const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: inOrder.length - 1 }[event.key];
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          pin();
        } else if (to !== undefined && inOrder[to] !== undefined) {
          event.preventDefault();
          for (const each of inOrder) shown[each].tabIndex = each === inOrder[to] ? 0 : -1;
          shown[inOrder[to]].focus();
        } else if (event.key === "Escape") {
          pinned = null;
          word.setAttribute("aria-pressed", "false");
          show(null);
        }
      });
    });
  }
}
