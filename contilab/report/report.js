"use strict";
(() => {
  // Sorting: a header is a button; a second press turns the order. Cells without a value stay at the end.
  const value = (row, column) => {
    const cell = row.cells[column];
    const key = cell.dataset.sort;
    return key === undefined ? cell.textContent.trim() : Number(key);
  };
  const isEmpty = (v) => typeof v === "string" && (v === "" || v.startsWith("–"));
  const compare = (a, b, sign) => {
    if (isEmpty(a) || isEmpty(b)) return isEmpty(a) - isEmpty(b);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const sortBy = (header, column) => {
    const body = header.closest("table").tBodies[0];
    const down = header.getAttribute("aria-sort") !== "descending";
    for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].map((row) => [value(row, column), row]);
    rows.sort((x, y) => compare(x[0], y[0], down ? -1 : 1));
    body.append(...rows.map((pair) => pair[1]));
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sortBy(header, column));
    });
  }

  // Tooltips: the values of the seeds, by mouse, keyboard or touch. Without this script they are plain titles.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  const show = (cell) => {
    tip.textContent = cell.dataset.tip;
    tip.hidden = false;
    cell.setAttribute("aria-describedby", "tip");
    const box = cell.getBoundingClientRect();
    const left = Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const below = box.bottom + tip.offsetHeight + 8 < window.innerHeight;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below ? box.bottom + 4 : Math.max(8, box.top - tip.offsetHeight - 4)}px`;
  };
  const hide = (cell) => {
    tip.hidden = true;
    cell.removeAttribute("aria-describedby");
  };
  for (const cell of document.querySelectorAll("td[title]")) {
    cell.dataset.tip = cell.title;
    cell.removeAttribute("title");
    cell.tabIndex = 0;
    for (const name of ["mouseenter", "focus", "click"]) cell.addEventListener(name, () => show(cell));
    for (const name of ["mouseleave", "blur"]) cell.addEventListener(name, () => hide(cell));
  }
  document.addEventListener("scroll", () => { tip.hidden = true; }, true);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
})();
