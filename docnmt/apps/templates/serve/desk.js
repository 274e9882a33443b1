
// The desk: a text whose translation a person confirms, segment by segment, in an open document of the service.
const desk = at("desk"), rows = at("segments");
let session = null;  // its address, once it is open
let again = null;  // AbortController of what is translated again

const EDITED = "edited", CONFIRMED = "confirmed", DRAFT = "draft";
const fieldOf = (row) => row.querySelector("textarea");
const rowsIn = (...states) => [...rows.children].filter((row) => states.includes(row.dataset.state));

async function ask(method, path, body, signal) {
  const headers = { accept: "application/x-ndjson, application/json", "content-type": "application/json" };
  if (at("token").value) headers.authorization = `Bearer ${at("token").value}`;
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), signal });
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({ error: { message: `error ${answer.status}` } }));
  throw new Error(error.message);
}

function state(row, name) {
  row.dataset.state = name;
  row.querySelector(".state").textContent = name;
}

function putRow({ place, number, content }, count) {
  const row = document.createElement("li"), source = document.createElement("p"), field = document.createElement("textarea");
  const mark = document.createElement("span");
  row.dataset.place = `${place} ${number}`;
  source.className = "source";
  source.lang = languages.source;
  source.dir = field.dir = "auto";
  source.textContent = content;
  mark.className = "state";
  field.lang = languages.target;
  field.rows = 2;
  field.value = shown.target[place][number] ?? "";
  field.setAttribute("aria-label", `Translation of segment ${count + 1}: ${content}`);
  row.append(source, field, mark);
  state(row, DRAFT);
  rows.append(row);
}

async function openDesk() {
  closeDesk();
  const all = shown.source.flatMap((line, place) => line.map((content, number) => ({ place, number, content })));
  const segments = all.map(({ place, number, content }) =>
    ({ source: content, translation: shown.target[place][number] ?? "", confirmed: false }));
  try {
    session = `sessions/${(await (await ask("POST", "sessions", { segments })).json()).session}`;
  } catch (error) {
    say(`Not opened: ${error.message}`, true);
    return;
  }
  all.forEach(putRow);
  result.hidden = true;
  desk.hidden = false;
  say(`${all.length} segments. Ctrl+Enter confirms one and goes to the next.`);
  if (rows.firstChild) fieldOf(rows.firstChild).focus();
}

function closeDesk() {
  again?.abort();
  if (session) ask("DELETE", session).catch(() => {});  // it is forgotten in an hour, too
  session = null;
  rows.replaceChildren();
  desk.hidden = true;
  if (shown) result.hidden = false;
}

function keep(row) {
  const [place, number] = row.dataset.place.split(" ");
  shown.target[place][number] = fieldOf(row).value;
  const button = find("target", place, number);
  if (button) fill(button, fieldOf(row).value);
}

// What comes late may replace a draft that a person looks at, but not one in which a part is chosen; what is chosen whole stays so.
function renew(row, translation) {
  const field = fieldOf(row), end = field.value.length;
  const chosen = document.activeElement === field ? field.selectionEnd - field.selectionStart : 0;
  if (chosen && chosen < end) return;
  field.value = translation;
  if (chosen) field.select();
  keep(row);
}

async function confirm(row) {
  const number = [...rows.children].indexOf(row), translation = fieldOf(row).value;
  state(row, EDITED);  // until the service knows it, nothing that comes late takes its place
  try {
    await ask("PUT", `${session}/segments/${number}`, { translation });
  } catch (error) {
    say(`Not confirmed: ${error.message}`, true);
    return;
  }
  if (fieldOf(row).value === translation) state(row, CONFIRMED);
  keep(row);
  const next = [...rows.children].slice(number + 1).find((each) => each.dataset.state !== CONFIRMED)
    ?? rowsIn(DRAFT, EDITED)[0];
  if (next) fieldOf(next).focus();
  else say("All segments are confirmed");
  translateAgain();
}

// All that nobody has touched, with everything that is confirmed; what was begun before is given up.
async function translateAgain() {
  again?.abort();
  const segments = rowsIn(DRAFT).map((row) => [...rows.children].indexOf(row));
  if (!segments.length) return;
  const mine = again = new AbortController();
  try {
    const answer = await ask("POST", `${session}/translate`, { segments }, mine.signal);
    for await (const event of events(answer.body)) {
      if (event.error) throw new Error(event.error.message);
      const row = rows.children[event.segment];
      if (event.done || row?.dataset.state !== DRAFT || mine.signal.aborted) continue;
      renew(row, event.translation);
    }
    say(`${segments.length} segments were translated again`);
  } catch (error) {
    if (!mine.signal.aborted) say(`Not translated again: ${error.message}`, true);
  }
}

rows.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  event.stopPropagation();  // elsewhere it translates the text
  confirm(event.target.closest("li"));
});
rows.addEventListener("input", (event) => {
  const row = event.target.closest("li");
  state(row, EDITED);
  keep(row);
});
at("edit").addEventListener("click", openDesk);
at("leave").addEventListener("click", () => { closeDesk(); at("edit").focus(); });
window.addEventListener("pagehide", () => {
  if (session) fetch(session, { method: "DELETE", keepalive: true, headers: at("token").value ? { authorization: `Bearer ${at("token").value}` } : {} });
});
