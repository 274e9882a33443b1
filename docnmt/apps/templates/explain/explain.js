"use strict";

/** A new element with attributes, and children that are nodes or text; text is never read as HTML. */
function element(name, attributes, ...children) {
  const drawn = ["svg", "line", "circle", "text"].includes(name);
  const made = drawn ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const control = { document: byId("document"), head: byId("head"), clear: byId("clear") };
/** A word of a text, whose marks of direction turn nothing around it. */
const quoted = (text) => ["“", element("bdi", {}, text), "”"];
const percent = (weight) => `${weight < 0.0995 ? (100 * weight).toFixed(1) : Math.round(100 * weight)}\u00a0%`;
const named = (number) => (number < 0 ? `memory ${-number}` : `${number + 1}`);
const signed = (value) => (Math.abs(value) < 0.005 ? "0.00" : `${value > 0 ? "+" : "−"}${Math.abs(value).toFixed(2)}`);
const BLOCKS = {
  context: "Sentences of the source document", target: "Earlier translations", pointer: "Copied from given translations",
  cross: "Words of the source",
};
let chosen = null; // { side, number, word }

const current = () => data.documents[Number(control.document.value)];
const wordsOf = (sentence, side) => sentence[side === "source" ? "source_words" : "target_words"];

/* What a word reads: the mean of its pieces. */

/** Of an attention, for each head a map of what the word's pieces read, by `key` of an entry. */
function heads(attention, [, begin, end], key) {
  return attention.rows[begin].map((_, head) => {
    const found = new Map();
    for (let piece = begin; piece < end; piece++) {
      for (const entry of attention.rows[piece][head]) {
        found.set(key(entry), (found.get(key(entry)) ?? 0) + entry[1] / (end - begin));
      }
    }
    return new Map([...found].sort((a, b) => b[1] - a[1]));
  });
}

const sentenceKey = (entry) => entry[0];
const wordKey = (entry) => `${entry[0]}:${entry[2]}`;
const nameOf = (attention, head) => `${attention.model}.${attention.block}.${attention.layer}.${head}`;

/** The attentions of a word's side that choose sentences; without such, those over source words. */
function choosing(attentions) {
  const context = attentions.filter(({ block }) => block !== "cross");
  return context.length ? context : attentions;
}

/** The mean of the heads that are shown, by `key`. */
function mean(attentions, word, key) {
  const wanted = control.head.value, found = new Map();
  let count = 0;
  for (const attention of attentions) {
    heads(attention, word, key).forEach((entries, head) => {
      if (wanted !== "" && wanted !== nameOf(attention, head)) return;
      count++;
      for (const [name, weight] of entries) found.set(name, (found.get(name) ?? 0) + weight);
    });
  }
  return new Map([...found].map(([name, weight]) => [name, weight / count]).sort((a, b) => b[1] - a[1]));
}

/* The text. */

function paragraph(sentence, side) {
  const words = wordsOf(sentence, side);
  const shown = words.flatMap(([word, , , before], w) => {
    const button = element("button", {
      type: "button", class: "word", tabindex: w ? "-1" : "0", "aria-pressed": "false",
      "data-word": w, "data-side": side, "data-number": sentence.number,
    }, word);
    return before && w ? [" ", button] : [button];
  });
  const plain = side === "source" ? sentence.source : sentence.target;
  return element("p", { class: side + (sentence.given ? " given" : ""), dir: "auto", lang: data.languages[side === "source" ? 0 : 1] },
    ...(words.length ? shown : [plain]));
}

function draw() {
  const rows = current().sentences.map((sentence) => element("article",
    { id: `s${sentence.number + 1}`, "aria-label": `Sentence ${sentence.number + 1}` },
    element("div", { class: "address" }, `${sentence.number + 1}`, element("span", { class: "share" })),
    paragraph(sentence, "source"), paragraph(sentence, "target")));
  byId("text").replaceChildren(...rows);
  chosen = null;
  show();
}

const buttonOf = ({ side, number, word }) =>
  document.querySelector(`.word[data-side=${side}][data-number="${number}"][data-word="${word}"]`);

/* Light, and the panel. */

function clean() {
  for (const row of document.querySelectorAll("article.lit, article.own")) {
    row.classList.remove("lit", "own");
    row.querySelector(".share").textContent = "";
  }
  for (const word of document.querySelectorAll(".word.looked")) word.classList.remove("looked"), word.removeAttribute("title");
  for (const word of document.querySelectorAll(".word[aria-pressed=true]")) word.setAttribute("aria-pressed", "false");
  byId("details").replaceChildren();
}

function say(...parts) {
  byId("said").replaceChildren(...parts);
}

function show() {
  clean();
  byId("panel").classList.toggle("open", chosen !== null);
  if (chosen === null) {
    say("No word is chosen.");
    return;
  }
  const sentence = current().sentences.find(({ number }) => number === chosen.number);
  const word = wordsOf(sentence, chosen.side)[chosen.word];
  const attentions = sentence[chosen.side === "source" ? "encoder" : "decoder"];
  const button = buttonOf(chosen);
  button.setAttribute("aria-pressed", "true");
  button.scrollIntoView({ block: "nearest" });
  byId(`s${sentence.number + 1}`).classList.add("own");
  if (!attentions.length) {
    const why = sentence.given ? "this translation was given, not written by the model" : "nothing is known of what was read here";
    say(...quoted(word[0]), `: ${why}.`);
    return;
  }
  const read = mean(choosing(attentions), word, sentenceKey);
  light(read);
  const words = chosen.side === "target" ? mean(attentions.filter(({ block }) => block === "cross"), word, wordKey) : new Map();
  const looked = lightWords(words);
  const list = [...read].slice(0, 4).map(([number, weight]) => `${named(number)} (${percent(weight)})`);
  const most = list.length ? `reads sentence ${list.join(", ")}` : "reads no other sentence";
  const source = looked.slice(0, 3).flatMap(([text, weight], n) => [n ? ", " : "; it looks at ", ...quoted(text), ` (${percent(weight)})`]);
  say(...quoted(word[0]), ` in sentence ${sentence.number + 1} ${most}`, ...source, ".");
  byId("details").append(
    ...(sentence.leaves.length && attentions.some(({ tree }) => tree) ? [tree(sentence, read)] : []),
    ...attentions.map((attention) => table(attention, word, sentence)),
    ...without(sentence, word));
}

function light(read) {
  for (const [number, weight] of read) {
    const row = byId(`s${number + 1}`);
    if (!row || number < 0) continue;
    row.classList.add("lit");
    row.style.setProperty("--weight", weight);
    row.querySelector(".share").textContent = percent(weight);
  }
}

/** Marks source words; returns their texts and weights. */
function lightWords(words) {
  const sums = new Map();
  for (const [key, weight] of words) {
    const [number, piece] = key.split(":").map(Number);
    const sentence = current().sentences.find((each) => each.number === number);
    const w = sentence?.source_words.findIndex(([, begin, end]) => begin <= piece && piece < end) ?? -1;
    if (w >= 0) sums.set(`${number}:${w}`, (sums.get(`${number}:${w}`) ?? 0) + weight);
  }
  return [...sums].sort((a, b) => b[1] - a[1]).map(([key, weight]) => {
    const [number, word] = key.split(":").map(Number), button = buttonOf({ side: "source", number, word });
    if (weight >= 0.03) {
      button.classList.add("looked");
      button.style.setProperty("--weight", weight);
      button.title = percent(weight);
    }
    return [button.textContent, weight];
  });
}

/** What each head of a layer read. */
function table(attention, word, sentence) {
  const words = attention.block === "cross", key = words ? wordKey : sentenceKey;
  const textOf = (name) => {
    if (!words) return named(Number(name));
    const [number, piece] = name.split(":").map(Number);
    const of = current().sentences.find((each) => each.number === number);
    return of?.source_words.find(([, begin, end]) => begin <= piece && piece < end)?.[0] ?? "end";
  };
  const cells = heads(attention, word, key).map((entries, head) => {
    const lines = [...entries].slice(0, words ? 2 : 4).map(([name, weight]) =>
      element("span", {}, element("bdi", {}, textOf(name)), ` ${percent(weight)}`));
    const button = element("button", {
      type: "button", "data-head": nameOf(attention, head), "aria-pressed": String(control.head.value === nameOf(attention, head)),
      "aria-label": `Head ${head + 1}: ${[...entries].slice(0, 4).map(([name, weight]) => `${words ? "" : "sentence "}${textOf(name)} ${percent(weight)}`).join(", ") || "nothing"}`,
    }, ...(lines.length ? lines : ["–"]));
    button.style.setProperty("--weight", [...entries.values()][0] ?? 0);
    return element("td", {}, button);
  });
  const [, begin, end] = word, share = attention.share?.slice(begin, end).reduce((sum, x) => sum + x, 0) / (end - begin);
  const model = data.models.length > 1 ? `, model ${attention.model + 1}` : "";
  const copied = attention.share ? ` (${percent(share)} of the probability)` : "";
  const title = `${BLOCKS[attention.block] ?? attention.block}${copied}, layer ${attention.layer + 1}${model}`;
  const wide = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": title },
    element("table", { class: "heads" },
      element("tr", {}, ...cells.map((_, head) => element("th", { scope: "col" }, `head ${head + 1}`))),
      element("tr", {}, ...cells)));
  return element("section", {}, element("h3", {}, title), wide);
}

/** The document's tree, with the paths to what was read. */
function tree(sentence, read) {
  const leaves = sentence.leaves, levels = Math.ceil(Math.log2(Math.max(leaves.length, 1))) + 1;
  const width = 320, height = 24 * levels + 20;
  const at = (level, place) => { // level 0: the leaves; a node stands over the middle of its leaves
    const first = place << level, last = Math.min((place + 1) << level, leaves.length) - 1;
    return [12 + (width - 24) * ((first + last) / 2 + 0.5) / leaves.length, height - 22 - 24 * level];
  };
  const paths = new Map(); // "level place" → weight
  for (const [number, weight] of read) {
    const leaf = leaves.indexOf(number);
    for (let level = 0; leaf >= 0 && level < levels; level++) {
      const key = `${level} ${leaf >> level}`;
      paths.set(key, (paths.get(key) ?? 0) + weight);
    }
  }
  const shown = [];
  for (let level = 0; level < levels; level++) {
    for (let place = 0; place << level < leaves.length; place++) shown.push([level, place]);
  }
  const few = leaves.length <= 128;
  const drawn = shown.filter(([level, place]) => few || paths.has(`${level} ${place}`));
  const lines = drawn.filter(([level]) => level + 1 < levels).map(([level, place]) => {
    const [x1, y1] = at(level, place), [x2, y2] = at(level + 1, place >> 1), weight = paths.get(`${level} ${place}`);
    return element("line", { x1, y1, x2, y2, class: weight ? "on" : null, "stroke-width": weight ? 1.5 + 4 * weight : 1 });
  });
  const nodes = drawn.map(([level, place]) => {
    const [cx, cy] = at(level, place), weight = paths.get(`${level} ${place}`);
    return element("circle", { cx, cy, r: weight ? 3.5 : few ? 2 : 1, class: weight ? "on" : null });
  });
  const labels = leaves.map((number, place) => [number, at(0, place)]).filter(([number]) => read.has(number))
    .map(([number, [x, y]]) => element("text", { x, y: y + 14 }, named(number)));
  const label = `Tree over ${leaves.length} sentences; lit are the paths to ${[...read.keys()].map(named).join(", ") || "none"}`;
  return element("section", {}, element("h3", {}, "Paths in the document's tree"),
    element("svg", { id: "tree", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...lines, ...nodes, ...labels));
}

/** What would change without the sentences that were read most. */
function without(sentence, [, begin, end]) {
  if (!sentence.without.length) return [];
  const sum = (values, from, to) => values.slice(from, to).reduce((a, b) => a + b, 0);
  const own = chosen.side === "target";
  const rows = sentence.without.map(([number, values]) => element("tr", {},
    element("th", { scope: "row" }, `sentence ${named(number)}`),
    element("td", { class: "number" }, signed(sum(values, 0) - sum(sentence.log_probs, 0))),
    ...(own ? [element("td", { class: "number" }, signed(sum(values, begin, end) - sum(sentence.log_probs, begin, end)))] : [])));
  const head = element("tr", {}, element("th", { scope: "col" }, "without"),
    element("th", { scope: "col", class: "number" }, "translation"),
    ...(own ? [element("th", { scope: "col", class: "number" }, "this word")] : []));
  return [element("section", {}, element("h3", {}, "What would change without a sentence"),
    element("p", { class: "note" }, "Log-probability of this translation, in nats, in the document without the sentence, minus that with it. Below 0: the sentence spoke for it."),
    element("div", { class: "wide" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))))];
}

/* What the user does. */

function choose(button) {
  chosen = { side: button.dataset.side, number: Number(button.dataset.number), word: Number(button.dataset.word) };
  show();
}

/** Arrow keys go from word to word of a text, and to the texts above and below. */
function move(event) {
  const word = event.target.closest?.(".word");
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1, Home: 0, End: 0 };
  if (!word || !(event.key in steps)) return;
  const p = word.parentElement, own = [...p.querySelectorAll(".word")];
  let next;
  if (event.key === "Home") next = own[0];
  else if (event.key === "End") next = own.at(-1);
  else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
    const step = getComputedStyle(p).direction === "rtl" ? -steps[event.key] : steps[event.key];
    next = own[own.indexOf(word) + step];
  } else {
    const side = [...document.querySelectorAll(`.word[data-side=${word.dataset.side}][tabindex="0"]`)];
    next = side[side.indexOf(own.find((each) => each.tabIndex === 0)) + steps[event.key]];
  }
  event.preventDefault();
  if (!next) return;
  if (next.parentElement === p) for (const each of own) each.tabIndex = each === next ? 0 : -1;
  next.focus();
}

byId("text").addEventListener("click", (event) => {
  const word = event.target.closest(".word");
  if (!word) return;
  for (const each of word.parentElement.querySelectorAll(".word")) each.tabIndex = each === word ? 0 : -1;
  choose(word);
});
byId("text").addEventListener("keydown", move);
byId("details").addEventListener("click", (event) => {
  const button = event.target.closest("[data-head]");
  if (!button) return;
  const name = button.dataset.head, back = control.head.value === name ? "" : name;
  if (![...control.head.options].some((option) => option.value === back)) return;
  control.head.value = back;
  show();
  document.querySelector(`[data-head="${name}"]`)?.focus();
});
control.head.addEventListener("change", show);
control.document.addEventListener("change", draw);
function close() {
  if (chosen === null) return;
  const back = buttonOf(chosen);
  chosen = null;
  show();
  back.focus();
}
control.clear.addEventListener("click", close);
document.addEventListener("keydown", (event) => event.key === "Escape" && close());

control.document.append(...data.documents.map((each, d) =>
  element("option", { value: d }, `${d + 1} (${each.sentences.length} sentences)`)));
control.head.append(element("option", { value: "" }, "all, their mean"), ...data.heads.map(([name, label]) =>
  element("option", { value: name }, label)));
draw();
