/* What an audit of bias found about a run, with what that does not prove. Everything is text; nothing becomes markup. */

import { element, find } from "./page.dom.js";

/** Show the summary of an audit; nothing for a run without one. */
export function showBias(audit) {
  find("bias").hidden = !audit;
  if (!audit) return;
  const rows = audit.tasks.map((task) => {
    const largest = task.largest.length ? ` Largest: ${task.largest.join("; ")}.` : "";
    const shifts = `${task.significant} of ${task.groups} groups have a significant shift.${largest}`;
    return element("li", {}, element("strong", {}, task.name), ` – ${task.overall} ${shifts}`);
  });
  find("bias-tasks").replaceChildren(...rows);
  const stale = audit.is_stale ? ["The model has changed since this audit."] : [];
  find("bias-limits").textContent = [...stale, `From ${audit.rows_from}.`, ...audit.limits].join(" ");
}
