/* Elements from plain values: what comes from data is text, never markup. */

export function find(id) {
  return document.getElementById(id);
}

/** Make an element. Attributes that are null or false are left out; functions become listeners of the event. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Show a problem in a box: what the server said, and the id under which its log has it. */
export function showProblem(place, problem, ...further) {
  if (!problem) {
    place.replaceChildren();
    return;
  }
  place.replaceChildren(
    element(
      "div",
      { class: "notes" },
      element("strong", {}, problem.title || "Something went wrong"),
      problem.detail ? element("p", {}, problem.detail) : null,
      problem.hint ? element("p", {}, problem.hint) : null,
      problem.requestId ? element("p", { class: "muted small" }, "Request id: ", element("code", {}, problem.requestId)) : null,
      ...further,
    ),
  );
}

export function percent(share) {
  const value = share * 100;
  if (value > 0 && value < 1) return "< 1 %";
  if (value > 99 && value < 100) return "> 99 %";
  return `${Math.round(value)} %`;
}

export function signed(value, digits = 2) {
  const shown = Math.abs(value).toFixed(digits);
  if (Number(shown) === 0) return shown;
  return (value < 0 ? "−" : "+") + shown;
}

export function decimals(value, digits = 2) {
  return value.toFixed(digits).replace("-", "−");
}

export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
