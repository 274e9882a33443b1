"use strict";

/** Scripts that are written without spaces: each letter counts as a word, with the marks that belong to it. */
const UNSPACED = ["Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"]
  .map((script) => `\\p{scx=${script}}`).join("");
const WORD = new RegExp(
  `(?=\\p{L})[${UNSPACED}]\\p{M}*|(?:(?!(?=\\p{L})[${UNSPACED}])[\\p{L}\\p{N}\\p{M}\\u200c\\u200d])+|\\S\\p{M}*`, "gu");

/** More cells than this are not filled: then a word differs if the other text does not have it at all. */
const MOST_CELLS = 4e6;

/** The words of a text, each with the white space around it. */
function words(text) {
  const found = [...text.matchAll(WORD)];
  const ends = [0, ...found.map((match) => match.index + match[0].length)];
  return found.map((match, i) => ({
    word: match[0],
    before: text.slice(ends[i], match.index),
    after: text.slice(ends[i + 1], found[i + 1]?.index),
  }));
}

/**
 * What makes `shown` out of `other`, word by word, by their longest common subsequence.
 * Returns [kind, word] in order: "=" stands in both, "+" in `shown` only, "-" in `other` only.
 */
function differences(other, shown) {
  const a = words(other), b = words(shown);
  const same = (i, j) => a[i].word === b[j].word;
  let begin = 0, endA = a.length, endB = b.length;
  while (begin < endA && begin < endB && same(begin, begin)) begin++;
  while (endA > begin && endB > begin && same(endA - 1, endB - 1)) endA--, endB--;
  const middleA = a.slice(begin, endA), middleB = b.slice(begin, endB);
  const cells = (middleA.length + 1) * (middleB.length + 1);
  return [
    ...b.slice(0, begin).map((word) => ["=", word]),
    ...(cells > MOST_CELLS ? byPresence(middleA, middleB) : bySubsequence(middleA, middleB)),
    ...b.slice(endB).map((word) => ["=", word]),
  ];
}

function bySubsequence(a, b) {
  const numbers = new Map(); // equal words have equal numbers, which are compared faster
  const number = ({ word }) => numbers.get(word) ?? numbers.set(word, numbers.size).size - 1;
  const x = Uint32Array.from(a, number), y = Uint32Array.from(b, number);
  const width = b.length + 1, longest = new Uint16Array((a.length + 1) * width); // of a[i:] and b[j:]
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const at = i * width + j;
      longest[at] = x[i] === y[j]
        ? longest[at + width + 1] + 1 : Math.max(longest[at + width], longest[at + 1]);
    }
  }
  const found = [];
  let i = 0, j = 0;
  while (i < a.length && j < b.length) {
    if (x[i] === y[j]) found.push(["=", b[j++]]), i++;
    else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) found.push(["-", a[i++]]);
    else found.push(["+", b[j++]]);
  }
  while (i < a.length) found.push(["-", a[i++]]);
  while (j < b.length) found.push(["+", b[j++]]);
  return found;
}

function byPresence(a, b) {
  const inA = new Set(a.map(({ word }) => word)), inB = new Set(b.map(({ word }) => word));
  return [
    ...a.filter(({ word }) => !inB.has(word)).map((word) => ["-", word]),
    ...b.map((word) => [inA.has(word.word) ? "=" : "+", word]),
  ];
}

/**
 * `shown` as nodes: what `other` does not have in <ins>; with `missing`, what only `other` has in <del>.
 * The text is set as text, never as HTML.
 */
function marked(other, shown, missing) {
  const nodes = document.createDocumentFragment();
  let kind = null, text = "", gap = "";
  const close = () => {
    if (!text) return;
    if (kind === "=") return nodes.append(text);
    const mark = document.createElement(kind === "+" ? "ins" : "del");
    mark.textContent = text;
    nodes.append(mark);
  };
  for (const [next, { word, before, after }] of differences(other, shown)) {
    if (next === "-" && !missing) continue;
    if (next !== kind) {
      close();
      nodes.append(gap || before);
      [kind, text, gap] = [next, "", ""];
    }
    text += gap + word;
    gap = after;
  }
  close();
  return nodes;
}
