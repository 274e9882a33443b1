"""Documents that stay open in docnmt-serve: what is confirmed is read, as docnmt-translate --given reads it."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import small_system
from served import ARCHITECTURES, started, translating

from docnmt.apps.serve.ask import Sentences
from docnmt.apps.serve.kept import Sessions, SessionSegment
from docnmt.apps.serve.service import Call, Order, Worker
from docnmt.core.search.translate import translate_corpus

SOURCE = ["the cat.", "a dog sees it.", "it walks.", "the old tree.", "he sleeps."]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    opened = started(translating(), max_sessions=3, max_request_tokens=300, max_body=4000)
    yield opened
    opened.service.worker.stop()


@pytest.mark.parametrize(("arch", "options"), [ARCHITECTURES[n] for n in (0, 1, 3, 5)])
def test_what_is_confirmed_is_read_before_and_after(arch: str, options: dict[str, Any]) -> None:
    used = translating(arch, **options)

    def expected(given: list[str | None]) -> dict[int, str]:
        corpus = small_system.corpus([SOURCE])
        results = translate_corpus(used.loaded.models, used.loaded.task, corpus, used.options, used.search, given=given)
        return {result.number: result.text for result in results}

    client = started(used)
    opened = client.post("/sessions", json={"segments": SOURCE}).json()
    address = f"/sessions/{opened['session']}"

    def translated(**body: Any) -> dict[int, str]:
        segments = client.post(f"{address}/translate", json=body).json()["segments"]
        return {segment["segment"]: segment["translation"] for segment in segments}

    plain = expected([None] * 5)
    assert translated() == plain
    assert client.put(f"{address}/segments/1", json={"translation": "the river"}).json()["confirmed"]
    assert client.put(f"{address}/segments/4", json={"translation": "a tree"}).status_code == 200
    given = [None, "the river", None, None, "a tree"]
    adapted = expected(given)
    joined = arch in ("concat_transformer_tiny", "doc_transformer_tiny")
    if joined or options.get("target_context"):  # drafts are read, too
        drafts = [plain[0], "the river", plain[2], None, "a tree"]
        assert translated(segments=[3]) == {3: expected(drafts)[3]}
    else:
        assert translated(segments=[3]) == {3: adapted[3]}
    assert translated() == adapted
    changed = adapted != {number: plain[number] for number in adapted}
    if arch in ("transformer_tiny", "hier_cond_transformer_tiny"):  # which read no translations
        assert not changed
    if options.get("target_context") or arch == "copy_transformer_tiny":  # which do, and words differ by it
        assert changed
    shown = client.get(address).json()["segments"]
    assert [segment["translation"] for segment in shown] == [adapted.get(n) or given[n] for n in range(5)]
    assert [segment["confirmed"] for segment in shown] == [False, True, False, False, True]
    client.service.worker.stop()


def test_a_stream_has_every_segment_once(client: Any) -> None:
    segments = ["the cat. it walks.\nThe dog.", "", {"source": "a tree.", "translation": "the river"}]
    address = f"/sessions/{client.post('/sessions', json={'segments': segments}).json()['session']}"
    whole = client.post(f"{address}/translate", json={}).json()["segments"]
    accept = {"accept": "application/x-ndjson"}
    lines = client.post(f"{address}/translate", json={}, headers=accept).text.splitlines()
    *events, last = map(json.loads, lines)
    assert last == {"done": True}
    assert sorted(events, key=lambda event: event["segment"]) == whole
    assert [segment["segment"] for segment in whole] == [0, 1]
    assert [segment["translation"].count("\n") for segment in whole] == [1, 0]
    text = client.post("/translate", json={"text": "the cat. it walks.\nThe dog.\n\na tree."}).json()["text"]
    assert whole[0]["translation"] == "\n".join(text.split("\n")[:2])
    assert client.delete(address).status_code == 204


@pytest.mark.parametrize("arch", ["transformer_tiny", "concat_transformer_tiny", "hier_cond_transformer_tiny"])
def test_a_translation_begins_with_its_prefix(arch: str) -> None:
    """As that of docnmt-translate --prefix: the first sentence of the segment, its blank lines left out."""
    used = translating(arch)
    client = started(used, max_sentence_tokens=50)
    opened = client.post("/sessions", json={"segments": [SOURCE[0], f"\n{SOURCE[1]}"]}).json()
    address = f"/sessions/{opened['session']}"
    client.put(f"{address}/segments/0", json={"translation": "the river"})
    corpus, prefix = small_system.corpus([SOURCE[:2]]), "the tree"
    (expected,) = translate_corpus(
        used.loaded.models, used.loaded.task, corpus, used.options, used.search, given=["the river", None],
        prefixes=[None, prefix],
    )  # fmt: skip
    body = {"segments": [1], "prefix": prefix}
    (segment,) = client.post(f"{address}/translate", json=body).json()["segments"]
    assert segment["translation"] == f"\n{expected.text}"
    assert expected.text.startswith(prefix)
    client.post(f"{address}/segments", json={"segments": [" "]})
    for wrong in ({"segments": [0, 1]}, {}, {"segments": [2]}, {"segments": [1], "prefix": "the\ntree"}):
        assert client.post(f"{address}/translate", json={"prefix": prefix, **wrong}).status_code == 400
    long = client.post(f"{address}/translate", json={"segments": [1], "prefix": "tree " * 60})
    assert long.status_code == 413
    client.service.worker.stop()


def test_segments_are_added_and_taken_back(client: Any) -> None:
    opened = client.post("/sessions", json={"glossary": {"dog": "the river"}}).json()
    address = f"/sessions/{opened['session']}"
    client.post(f"{address}/segments", json={"segments": ["a dog.", "it walks."]})
    added = [{"source": "the cat.", "translation": "a tree", "confirmed": False}]
    content = client.post(f"{address}/segments", json={"segments": added, "before": 0}).json()["segments"]
    assert [segment["source"] for segment in content] == ["the cat.", "a dog.", "it walks."]
    assert content[0] == added[0]
    (answered,) = client.post(f"{address}/translate", json={"segments": [1]}).json()["segments"]
    assert "the river" in answered["translation"]
    assert client.put(f"{address}/segments/1", json={}).json() == {
        "source": "a dog.", "translation": answered["translation"], "confirmed": True
    }  # fmt: skip
    assert not client.put(f"{address}/segments/1", json={"confirmed": False}).json()["confirmed"]
    assert client.get("/sessions").json()["sessions"] >= 1
    assert opened["session"] not in client.get("/sessions").text
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404


LONG = {"segments": ["a" * 2500]}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "", b"{", 400), ("POST", "", b"[]", 400), ("POST", "", {"segments": [1]}, 400),
        ("POST", "", {"segments": [{"translation": "a"}]}, 400), ("POST", "", {"more": 1}, 400),
        ("POST", "", {"segments": ["a\0"]}, 400), ("POST", "", b'{"segments": ["\\ud800"]}', 400),
        ("POST", "", {"segments": [{"source": "a", "confirmed": True}]}, 400),
        ("POST", "", {"glossary": {"a": "\u4e16"}}, 400), ("POST", "", {"segments": ["a"] * 301}, 413),
        ("POST", "", b"[]" + b" " * 3990, 400), ("POST", "", b"a" * 5000, 413),
        ("GET", "/x", None, 404), ("DELETE", "/x", None, 404),
        ("POST", "/ID/segments", LONG, 413), ("POST", "/ID/segments", {"segments": ["a"], "before": 9}, 400),
        ("PUT", "/ID/segments/2", {"translation": "a"}, 404), ("PUT", "/ID/segments/x", {"translation": "a"}, 404),
        ("PUT", "/ID/segments/0", {"translation": "a" * 2500}, 413), ("PUT", "/ID/segments/0", {"translation": 1}, 400),
        ("PUT", "/ID/segments/1", {}, 400), ("POST", "/ID/translate", {"segments": [0, 2]}, 404),
        ("POST", "/ID/translate", {"segments": "all"}, 400), ("PUT", "/ID", {}, 405),
    ],
)  # fmt: skip
def test_what_is_refused(method: str, path: str, body: Any, status: int, client: Any) -> None:
    opened = client.post("/sessions", json={"segments": [{"source": "b" * 1500, "translation": "c"}, "a"]}).json()
    sent = {"content": body} if isinstance(body, bytes) else {"json": body} if body is not None else {}
    headers = {"content-type": "application/json"} if isinstance(body, bytes) else {}
    answer = client.request(method, f"/sessions{path.replace('ID', opened['session'])}", **sent, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["status"] == status
    assert client.delete(f"/sessions/{opened['session']}").status_code == 204


def test_sessions_are_few_and_forgotten() -> None:
    client = started(translating(), max_sessions=2, session_idle=0.3)
    first, second = (client.post("/sessions", json={"segments": ["a dog."]}).json()["session"] for _ in range(2))
    refused = client.post("/sessions", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "too_many_sessions")
    assert int(refused.headers["retry-after"]) > 0
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        assert client.get(f"/sessions/{first}").status_code == 200  # it is used
        time.sleep(0.05)
    assert client.get(f"/sessions/{second}").status_code == 404
    assert client.post("/sessions", json={}).status_code == 201
    client.service.worker.stop()


def test_session_that_is_translated_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    client, accept = started(translating(), session_idle=0.05), Call.accept

    def late(call: Call, sentences: Any) -> None:
        time.sleep(0.3)
        accept(call, sentences)

    monkeypatch.setattr(Call, "accept", late)
    name = client.post("/sessions", json={"segments": SOURCE[:1]}).json()["session"]
    assert client.post(f"/sessions/{name}/translate", json={}).status_code == 200
    assert client.get(f"/sessions/{name}").json()["segments"][0]["translation"] is not None
    client.service.worker.stop()


@pytest.mark.parametrize("what", ["added", "deleted"])
def test_what_happens_while_a_request_is_read(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft was kept in the segment that had the number then; the encodings of a deleted session stayed."""
    client, kept = started(translating()), []
    name = client.post("/sessions", json={"segments": SOURCE[:2]}).json()["session"]
    get, read = Sessions.get, Call.sentences

    def noted(self: Sessions, name: str) -> Any:
        kept.append(self)
        return get(self, name)

    async def meanwhile(call: Call, asked: Any) -> Any:
        if what == "added":
            kept[0].insert(kept[0].get(name), [SessionSegment(SOURCE[2])], 0)
        else:
            kept[0].delete(kept[0].get(name))
        return await read(call, asked)

    monkeypatch.setattr(Sessions, "get", noted)
    monkeypatch.setattr(Call, "sentences", meanwhile)
    assert client.post(f"/sessions/{name}/translate", json={"segments": [1]}).status_code == 200
    if what == "added":
        segments = client.get(f"/sessions/{name}").json()["segments"]
        assert [segment["source"] for segment in segments if segment["translation"] is not None] == [SOURCE[1]]
    else:
        assert not list(kept[0])
    client.service.worker.stop()


# The thread that owns the model: what goes wrong for one request is that request's alone.


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker(translating("hier_cond_transformer_tiny"))
    yield started
    started.stop()


class Client:
    """One who waits for an order."""

    def __init__(self, documents: list[list[str]], *, explain: bool = False) -> None:
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        corpus = small_system.corpus(documents)
        numbers = range(corpus.num_sentences) if explain else None
        self.order = Order(Sentences(corpus, [], explain=numbers), self.told.put, time.monotonic() + 60)

    def end(self) -> tuple[str, dict[int, str], int]:
        """How it ended, the translations, and how many events there were."""
        texts: dict[int, str] = {}
        count = 0
        while not isinstance(event := self.told.get(timeout=60), str):
            texts[event[0]] = event[1].text
            count += 1
        return event, texts, count


def together(worker: Worker, clients: list[Client]) -> list[tuple[str, dict[int, str], int]]:
    """Orders that the thread takes at once."""
    ready = threading.Event()
    worker.call(ready.wait)
    for client in clients:
        worker.submit(client.order)
    ready.set()
    return [client.end() for client in clients]


DOCUMENTS = [small_system.text(2, 5, seed=n) for n in range(4)]


@pytest.mark.parametrize("steps", [0, 3])
def test_a_fault_of_the_search_is_one_requests_alone(
    steps: int, worker: Worker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = [together(worker, [Client(documents)])[0] for documents in DOCUMENTS]
    clients = [Client(documents) for documents in DOCUMENTS]
    left = steps
    step = worker._scheduler.step

    def wrong() -> None:
        """Each time that one request is at work, a few steps go well."""
        nonlocal left
        step()
        if clients[1].order.job in worker._scheduler.jobs:
            left -= 1
            if left < 0:
                left = steps
                raise RuntimeError("this request's fault")

    monkeypatch.setattr(worker._scheduler, "step", wrong)
    ends = together(worker, clients)
    assert ends[1][0] == "failed"
    assert [end for n, end in enumerate(ends) if n != 1] == [end for n, end in enumerate(alone) if n != 1]
    assert capsys.readouterr().err.count("this request's fault") >= 2
    assert together(worker, [Client(DOCUMENTS[1])])[0] == alone[1]
