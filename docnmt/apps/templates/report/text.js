"use strict";

const control = Object.fromEntries(
  ["find", "within", "order", "judge", "mark", "missing", "differing", "document", "rows"].map(
    (name) => [name, byId(`text-${name}`)]));
const columns = data.columns;
const marks = document.querySelectorAll(".legend svg");
const firstSystem = columns.length - data.systems.length;
const lowered = columns.map(() => null);
let places = [], page = 0;

const documentOf = new Uint32Array(data.offsets.at(-1));
data.offsets.slice(1).forEach((end, d) => documentOf.fill(d, data.offsets[d], end));
/** A sentence's address: the numbers of its document and, in it, of its own. */
const address = (s) => `${documentOf[s] + 1}.${s - data.offsets[documentOf[s]] + 1}`;

/** A column's texts as they are searched. */
function searched(c) {
  return lowered[c] ??= columns[c].text.map((line) => line.toLowerCase());
}

/** What the order asks of a sentence or document: its score, or how far systems are apart there; smallest first. */
function judged(scores, n, apart) {
  const own = scores.map((row) => row[n]), one = control.judge.value;
  if (!apart) return one === "" ? own.reduce((sum, score) => sum + score) / own.length : own[one];
  return one === "" ? -spread(own) : own[one] - Math.max(...own.filter((_, s) => s !== Number(one)));
}

/** What is searched for; nothing but spaces is nothing. */
function wantedText() {
  const typed = control.find.value.toLowerCase();
  return typed.trim() ? typed : "";
}

/** The sentences that the filters leave, in the order that is chosen. */
function chosen() {
  const wanted = wantedText();
  const within = control.within.value === "" ? columns.map((_, c) => c) : [Number(control.within.value)];
  const only = Number(control.document.value) - 1;
  const differ = (s) => columns.slice(firstSystem).some(({ text }) => text[s] !== columns[firstSystem].text[s]);
  const found = [];
  for (let s = 0; s < documentOf.length; s++) {
    if (only >= 0 && documentOf[s] !== only) continue;
    if (control.differing?.checked && !differ(s)) continue;
    if (wanted && !within.some((c) => searched(c)[s].includes(wanted))) continue;
    found.push(s);
  }
  const [unit, how] = control.order.value.split(" ");
  if (unit === "text") return found;
  const scores = unit === "documents" ? data.documents.chrF : data.sentences.chrF;
  const keys = Float64Array.from(scores[0], (_, n) => judged(scores, n, how === "apart"));
  const place = unit === "documents" ? (s) => keys[documentOf[s]] : (s) => keys[s];
  return found.sort((a, b) => place(a) - place(b) || a - b);
}

/** A sentence's source, references and translations, side by side. */
function row(s) {
  const against = control.mark.value === "" ? -1 : Number(control.mark.value);
  const cells = columns.map((column, c) => {
    const line = column.text[s], label = element("div", { class: "name" });
    if (c >= firstSystem) {
      const system = c - firstSystem;
      label.append(marks[system].cloneNode(true), " ");
      const score = data.sentences.chrF[system][s].toFixed(1);
      label.append(element("bdi", {}, column.name), element("span", { class: "score" }, ` chrF ${score}`));
    } else label.append(column.name);
    const compared = c >= firstSystem && against >= 0 && c !== against;
    const content = compared && line ? marked(columns[against].text[s], line, control.missing.checked) : line;
    const shown = line ? text(column, content) : element("p", { class: "none" }, "no translation");
    return element("div", { class: "cell" }, label, shown);
  });
  const groups = [cells.slice(0, firstSystem), cells.slice(firstSystem)].map((group) => {
    const node = element("div", { class: "group" }, ...group);
    node.style.setProperty("--columns", group.length);
    return node;
  });
  const number = element("a", { class: "address", href: `#${address(s)}`, "aria-label": `Sentence ${address(s)}` }, address(s));
  return element("article", { id: `s${address(s)}`, tabindex: "-1", "aria-label": `Sentence ${address(s)}` },
    number, element("div", { class: "cells" }, ...groups));
}

/** A document's number and scores, above its sentences. */
function heading(d) {
  const scores = data.systems.flatMap((name, s) => [
    s ? " · " : "chrF: ", element("bdi", {}, name), ` ${data.documents.chrF[s][d].toFixed(1)}`]);
  return element("h3", {}, `Document ${d + 1} `, element("span", { class: "score" }, ...scores));
}

/** Emphasise what was searched for, where the browser can do so without changing the text. */
function emphasise() {
  const wanted = wantedText();
  if (!globalThis.Highlight) return;
  const ranges = [];
  for (const paragraph of wanted ? byId("text-shown").querySelectorAll("p[dir]") : []) {
    const nodes = document.createTreeWalker(paragraph, NodeFilter.SHOW_TEXT), starts = [];
    let whole = "";
    while (nodes.nextNode()) {
      starts.push([nodes.currentNode, whole.length]);
      whole += nodes.currentNode.data;
    }
    const low = whole.toLowerCase();
    if (low.length !== whole.length) continue; // letters that change their number, as İ: places would be wrong
    const point = (at) => starts.findLast(([, start]) => start <= at);
    for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, at + wanted.length)) {
      const range = new Range(), last = at + wanted.length - 1;
      range.setStart(point(at)[0], at - point(at)[1]);
      range.setEnd(point(last)[0], last - point(last)[1] + 1);
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}

/** Show one page of the sentences that are left. */
function draw() {
  const size = Number(control.rows.value), pages = Math.max(1, Math.ceil(places.length / size));
  page = Math.min(Math.max(page, 0), pages - 1);
  const shown = places.slice(page * size, (page + 1) * size), nodes = [];
  const byDocument = !control.order.value.startsWith("sentences");
  shown.forEach((s, n) => {
    if (byDocument && (n === 0 || documentOf[s] !== documentOf[shown[n - 1]])) nodes.push(heading(documentOf[s]));
    nodes.push(row(s));
  });
  byId("text-shown").replaceChildren(...nodes);
  const span = shown.length ? `${(page * size + 1).toLocaleString("en")}–${(page * size + shown.length).toLocaleString("en")} of ` : "";
  byId("text-status").textContent = `${span}${total(places.length, "sentence")}`;
  for (const button of document.querySelectorAll("[data-turn]")) {
    button.disabled = Number(button.dataset.turn) < 0 ? page === 0 : page === pages - 1;
  }
  emphasise();
}

/** Filter and sort again, from the first page on. */
function update() {
  places = chosen();
  page = 0;
  draw();
}

/** Go to what the address names: `#12` is a document, `#12.3` its third sentence. */
function follow() {
  const match = /^#(\d+)(?:\.(\d+))?$/.exec(location.hash);
  if (!match || match[1] < 1 || match[1] >= data.offsets.length) return;
  control.find.value = "";
  control.order.value = "text order";
  control.document.value = match[1];
  if (control.differing) control.differing.checked = false;
  places = chosen();
  page = match[2] ? Math.floor((match[2] - 1) / Number(control.rows.value)) : 0;
  draw();
  const target = (match[2] && byId(`s${match[1]}.${match[2]}`)) || byId("text-title");
  target.focus({ preventScroll: true });
  target.scrollIntoView();
}

for (const field of Object.values(control)) field?.addEventListener(field === control.find ? "input" : "change", update);
for (const button of document.querySelectorAll("[data-turn]")) {
  button.addEventListener("click", () => {
    page += Number(button.dataset.turn);
    draw();
    byId("text-title").focus({ preventScroll: true });
    byId("text-title").scrollIntoView();
  });
}
byId("text-reset").addEventListener("click", () => {
  byId("text-controls").reset();
  history.replaceState(null, "", location.pathname + location.search);
  update();
});
for (const form of document.forms) form.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("click", ({ target }) => {
  const link = target.closest("a"); // to where the address has been leading already: the filters may have changed
  if (link && link.hash === location.hash) follow();
});
addEventListener("hashchange", follow);
update();
follow();
