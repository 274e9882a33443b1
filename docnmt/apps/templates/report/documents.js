"use strict";

/** Rows of the table of documents that are there from the start. */
const FIRST_DOCUMENTS = 20;

/** A new element with attributes, and children that are nodes or text; text is never read as HTML. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const several = data.systems.length > 1;
const total = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

/** How far apart the best and the worst of these scores are. */
const spread = (scores) => Math.max(...scores) - Math.min(...scores);

/** A text in its language, in its own direction. */
const text = (column, ...content) => element("p", { dir: "auto", lang: column.lang }, ...content);

/* The table of documents: a metric is chosen, a heading sorts by its column. */
{
  const table = byId("documents-table"), metric = byId("documents-metric"), all = byId("documents-all");
  const headings = [
    ["Document", (d) => d],
    ["Sentences", (d) => data.offsets[d + 1] - data.offsets[d]],
    ...data.systems.map((name, s) => [name, (d) => data.documents[metric.value][s][d]]),
    ...(several ? [["Difference", (d) => spread(data.documents[metric.value].map((scores) => scores[d]))]] : []),
    ["Begins with", null],
  ];
  const upIsWorse = () => data.lower_is_better.includes(metric.value);
  const firstScore = 2;
  const isScore = (c) => c >= firstScore && c < firstScore + data.systems.length;
  let column = several ? headings.length - 2 : firstScore;
  let descending = several || upIsWorse();
  let open = false;

  const cells = headings.map(([name, key], c) => {
    const content = key ? element("button", { type: "button" }, element("bdi", {}, name)) : name;
    const cell = element("th", { scope: "col", class: key ? "number" : null }, content);
    if (key) {
      content.addEventListener("click", () => {
        descending = column === c ? !descending : isScore(c) ? upIsWorse() : c > firstScore;
        column = c;
        draw();
      });
    }
    return cell;
  });

  function row(d) {
    const [source] = data.columns, start = Array.from(source.text[data.offsets[d]]);
    const begins = start.slice(0, 60).join("") + (start.length > 60 ? "…" : "");
    const scores = headings.slice(firstScore, -1).map(([, key]) => key(d).toFixed(1));
    const numbers = [headings[1][1](d).toLocaleString("en"), ...scores];
    return element("tr", {},
      element("th", { scope: "row", class: "number" }, element("a", { href: `#${d + 1}` }, String(d + 1))),
      ...numbers.map((number) => element("td", { class: "number" }, number)),
      element("td", { class: "begins" }, element("bdi", { lang: source.lang }, begins)));
  }

  function draw() {
    const key = headings[column][1], sign = descending ? -1 : 1, count = data.offsets.length - 1;
    const keys = Array.from({ length: count }, (_, d) => key(d));
    const order = Array.from(keys.keys()).sort((a, b) => sign * (keys[a] - keys[b]) || a - b);
    cells.forEach((cell, c) => {
      if (c === column) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    const shown = open ? order : order.slice(0, FIRST_DOCUMENTS);
    table.tBodies[0].replaceChildren(...shown.map(row));
    all.hidden = open || count <= FIRST_DOCUMENTS;
    all.textContent = `Show all ${total(count, "document")}`;
  }

  table.tHead.replaceChildren(element("tr", {}, ...cells));
  metric.addEventListener("change", () => {
    if (isScore(column)) descending = upIsWorse(); // the worst first, whatever the score
    draw();
  });
  all.addEventListener("click", () => {
    open = true;
    draw();
    table.querySelectorAll("tbody a")[FIRST_DOCUMENTS].focus();
  });
  draw();
}
