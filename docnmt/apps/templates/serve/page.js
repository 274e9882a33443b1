
const at = (id) => document.getElementById(id);
const [form, text, file, go, stop, status, problem, progress, result, lines, detail] =
  ["form", "text", "file", "go", "stop", "status", "problem", "progress", "result", "lines", "detail"].map(at);
const languages = document.body.dataset;
let running = null;  // AbortController of the request at work
let shown = null;  // {source, target, scores, name, whole, told, done, complete}
let opened = null;  // the file that was chosen or dropped

function say(message, bad = false) {
  status.textContent = bad ? "" : message;
  problem.textContent = bad ? message : "";
}

// Why something is not sent, if it is larger than this service takes; else null.
function tooLarge(name, size) {
  if (size <= Number(languages.most)) return null;
  const [has, most] = [size, Number(languages.most)].map((bytes) => (bytes / 1e6).toPrecision(3));
  return `${name} has ${has} MB; this service takes ${most} MB at most (--max-body). Divide it.`;
}

function sentence(side, line, number, content) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "sentence";
  button.lang = languages[side];
  button.dir = "auto";
  button.dataset.place = `${side} ${line} ${number}`;
  button.setAttribute("aria-pressed", "false");
  button.tabIndex = -1;
  fill(button, content);
  return button;
}

function fill(button, content) {
  const waiting = content === null;
  button.textContent = waiting ? "…" : content || "∅";
  button.classList.toggle("waiting", waiting);
  button.disabled = waiting;
}

const find = (side, line, number) => lines.querySelector(`[data-place="${side} ${line} ${number}"]`);

function begin(source, name) {
  const target = source.map((line) => line.map(() => null));
  const count = source.reduce((sum, line) => sum + line.length, 0);
  shown = { source, target, scores: source.map(() => []), reads: {}, name, count, done: 0, told: 0, whole: null };
  lines.replaceChildren(...source.map((line, place) => {
    const row = document.createElement("li");
    for (const side of ["source", "target"]) {
      const part = document.createElement("p");
      part.className = side;
      line.forEach((content, number) => {
        part.append(sentence(side, place, number, side === "source" ? content : null), " ");
      });
      row.append(part);
    }
    return row;
  }));
  const first = lines.querySelector(".sentence");
  if (first) first.tabIndex = 0;
  result.hidden = progress.hidden = false;
  progress.max = Math.max(count, 1);
  progress.value = 0;
  say(`Translating ${count} sentences`);
}

function put({ line, sentence: number, text: content, score, reads }) {
  if (reads) {
    shown.reads[`${line} ${number}`] = reads;
    return;
  }
  shown.target[line][number] = content;
  shown.scores[line][number] = score;
  const button = find("target", line, number);
  fill(button, content);
  button.classList.add("new");
  progress.value = ++shown.done;
  if (Date.now() - shown.told > 3000) {  // a screen reader should not hear every sentence
    shown.told = Date.now();
    say(`${shown.done} of ${shown.count} sentences`);
  }
}

function finish(end, unknown) {
  const seconds = ((Date.now() - shown.begun) / 1000).toFixed(1);
  const left = end.file?.untranslated ?? [];
  const lines = left.filter(Number.isInteger), parts = left.filter((place) => !Number.isInteger(place));
  const notes = [
    lines.length && `Not translated, because markup cannot be told from text there: what begins in line ${lines.join(", ")}`,
    parts.length && `Not translated: ${parts.join("; ")}`,
    end.file?.unknown ?? unknown,
  ].filter(Boolean);
  say([`Done: ${shown.count} sentences in ${seconds} seconds`, ...notes].join(". "));
  progress.hidden = true;
  shown.whole = end.file ?? null;
  shown.complete = true;
}

// What stands between two sentences, as docnmt.runtime.languages.seam says it for the text of an answer.
const wide = /[\u3000-\u3020\u30fb\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]/u;
const unspaced = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}\u30fc]/u;
const joined = (texts) => texts.filter((part) => part).reduce((text, part) => {
  const ends = [text.trimEnd().replace(/["'”’»)\]!?.…]+$/u, "").slice(-1), part.replace(/^["'“‘«(\[]+/u, "").slice(0, 1)];
  const tight = ends.some((sign) => wide.test(sign)) || ends.every((sign) => unspaced.test(sign));
  return text + (!text || tight ? "" : " ") + part;
}, "");
const translated = () => shown.target.map(joined).join("\n");

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const parts = (rest + (value ?? "")).split("\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
    if (done) return;
  }
}

async function translate() {
  if (running) return;
  const asked = opened;
  if (!asked && !text.value.trim()) {
    say("There is no text yet: paste one, or choose a file.", true);
    text.focus();
    return;
  }
  let address = "translate", type = "application/json";
  let sent = JSON.stringify({ text: text.value, explain: at("explain").checked });
  if (asked) {
    address = `translate/file?name=${encodeURIComponent(asked.name)}`;
    type = "application/octet-stream";
    sent = asked;
  }
  const large = tooLarge(asked?.name ?? "The text", asked?.size ?? new Blob([sent]).size);
  if (large) {
    say(`Not translated: ${large}`, true);
    return;
  }
  running = new AbortController();
  go.disabled = true;
  stop.hidden = false;
  at("copy").disabled = at("download").disabled = at("edit").disabled = true;
  unchoose();
  closeDesk();
  say("Sending");
  const begun = Date.now();
  let ended = false;
  try {
    const headers = { accept: "application/x-ndjson", "content-type": type };
    if (at("token").value) headers.authorization = `Bearer ${at("token").value}`;
    const answer = await fetch(address, { method: "POST", headers, body: sent, signal: running.signal });
    if (!answer.ok) {
      if (answer.status === 401) at("token-field").hidden = false;
      const { error } = await answer.json().catch(() => ({ error: { message: `error ${answer.status}` } }));
      throw new Error(error.message);
    }
    const unknown = decodeURIComponent(answer.headers.get("docnmt-unknown") ?? "");
    for await (const event of events(answer.body)) {
      if (event.source) begin(event.source, asked?.name ?? "document.txt"), shown.begun = begun;
      else if (event.error) throw new Error(event.error.message);
      else if (event.done) finish(event, unknown), ended = true;
      else put(event);
    }
    if (!ended) throw new Error("the connection ended before the translation did");
  } catch (error) {
    progress.hidden = true;
    say(running.signal.aborted ? "Stopped" : `Not translated: ${error.message}`, !running.signal.aborted);
    if (!running.signal.aborted && !at("token-field").hidden) at("token").focus();
  } finally {
    running = null;
    at("copy").disabled = at("download").disabled = !shown?.complete;  // of an earlier text, if this one was refused
    at("edit").disabled = !shown?.complete || shown.whole !== null;  // a file has more than its sentences
    go.disabled = false;
    stop.hidden = true;
  }
}

function unchoose() {
  for (const button of lines.querySelectorAll("[aria-pressed=true]")) button.setAttribute("aria-pressed", "false");
  for (const button of lines.querySelectorAll(".read")) button.classList.remove("read");
  detail.hidden = true;
}

function showReads(reads) {
  const all = shown.source.flatMap((line, place) => line.map((content, number) => ({ place, number, content })));
  const others = (reads?.others ?? []).filter(([number]) => number >= 0).slice(0, 5);
  at("reads").replaceChildren();
  if (!reads) return;
  const title = document.createElement("p");
  title.textContent = others.length ? "Other sentences that were read, by their share:" : "No other sentence was read.";
  const list = document.createElement("ul");
  for (const [sentence, weight] of others) {
    const { place, number, content } = all[sentence];
    find("source", place, number).classList.add("read");
    const item = document.createElement("li");
    const meter = document.createElement("meter");
    meter.value = weight;
    item.append(meter, `${(100 * weight).toFixed(1)} %  ${content}`);
    list.append(item);
  }
  at("reads").append(title, list);
}

function choose(button) {
  const [, line, number] = button.dataset.place.split(" ");
  unchoose();
  for (const side of ["source", "target"]) find(side, line, number).setAttribute("aria-pressed", "true");
  at("detail-source").textContent = shown.source[line][number];
  at("detail-target").textContent = shown.target[line][number] ?? "…";
  at("detail-score").textContent = shown.scores[line][number]?.toFixed(3) ?? "";
  showReads(shown.reads[`${line} ${number}`]);
  detail.hidden = false;
  button.scrollIntoView({ block: "nearest" });
}

function move(from, step) {
  const side = from.dataset.place.split(" ")[0];
  const all = [...lines.querySelectorAll(`.${side} .sentence:not(:disabled)`)];
  focus(all[all.indexOf(from) + step]);
}

function focus(button) {
  if (!button) return;
  for (const other of lines.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
  button.tabIndex = 0;
  button.focus();
  if (!detail.hidden) choose(button);
}

lines.addEventListener("click", (event) => {
  const button = event.target.closest(".sentence");
  if (button) focus(button), choose(button);
});
lines.addEventListener("keydown", (event) => {
  const button = event.target.closest(".sentence");
  if (!button) return;
  const [side, line, number] = button.dataset.place.split(" ");
  const other = side === "source" ? "target" : "source";
  const across = find(other, line, number);
  const steps = {
    ArrowDown: () => move(button, 1), ArrowUp: () => move(button, -1),
    ArrowRight: () => side === "source" && !across.disabled && focus(across),
    ArrowLeft: () => side === "target" && focus(across),
  };
  if (steps[event.key]) event.preventDefault(), steps[event.key]();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !detail.hidden) unchoose();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.preventDefault(), translate();
});
at("close").addEventListener("click", () => {
  const chosen = lines.querySelector("[aria-pressed=true]");
  unchoose();
  chosen?.focus();
});
form.addEventListener("submit", (event) => { event.preventDefault(); translate(); });
stop.addEventListener("click", () => running?.abort());

function take(chosen) {  // null: what is in the field is translated
  opened = chosen;
  if (!chosen) file.value = "";
  at("explain").disabled = chosen !== null;
  at("explain").title = chosen ? "Of files the page does not show what is read; docnmt-translate --explain does" : "";
}

async function open(chosen) {
  if (!chosen) return;
  const large = tooLarge(chosen.name, chosen.size);
  if (large) {
    take(null);
    say(`Not read: ${large}`, true);
    return;
  }
  if (/\.(txt|text)$/i.test(chosen.name)) {
    try {
      text.value = new TextDecoder("utf-8", { fatal: true }).decode(await chosen.arrayBuffer());
    } catch {
      take(null);
      say(`${chosen.name}: not read, because it is not in UTF-8; save it as UTF-8 first`, true);
      return;
    }
    take(null);
  } else {
    take(chosen);
    text.value = "";
  }
  say(`${chosen.name}: ready to be translated`);
}

file.addEventListener("change", () => open(file.files[0]));
text.addEventListener("input", () => take(null));
for (const kind of ["dragenter", "dragover"]) {
  document.addEventListener(kind, (event) => { event.preventDefault(); form.classList.add("over"); });
}
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) form.classList.remove("over"); });
document.addEventListener("drop", (event) => {
  event.preventDefault();
  form.classList.remove("over");
  const [dropped] = event.dataTransfer.files;
  if (dropped) open(dropped);
  else if (event.dataTransfer.getData("text")) text.value = event.dataTransfer.getData("text"), take(null);
});

at("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(translated());
    say("Copied");
  } catch {  // by another name than localhost, without TLS, there is no clipboard
    say("The browser does not let this page copy; use Download", true);
  }
});
at("download").addEventListener("click", () => {
  const whole = shown.whole && Uint8Array.from(atob(shown.whole.content), (byte) => byte.charCodeAt(0));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([whole ?? `${translated()}\n`]));
  const place = shown.name.lastIndexOf(".");
  link.download = `${shown.name.slice(0, place)}.${languages.target}${shown.name.slice(place)}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
