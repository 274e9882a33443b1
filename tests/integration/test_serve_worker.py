"""The thread that owns the model: what goes wrong for one request is that request's alone."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import small_system

pytest.importorskip("uvicorn", reason="needs docnmt[serve]")

from docnmt.apps.commands.models import LoadedModels
from docnmt.apps.commands.translating import Translating
from docnmt.apps.explain.explain import explain_translations
from docnmt.apps.serve.ask import Sentences
from docnmt.apps.serve.search import Order, Worker
from docnmt.core.corpus import TextArray
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, SamplingConfig
from docnmt.core.search.translate import TranslationMemory, translate_corpus
from docnmt.runtime.system import UserError


@pytest.fixture
def worker() -> Iterator[Worker]:
    loaded = LoadedModels((Path("m"),), (small_system.model("hier_cond_transformer_tiny"),), small_system.task())
    started = Worker(Translating(loaded, GenerationConfig(), BeamSearchConfig(beam=2)))
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
        found: dict[int, str] = {}
        count = 0
        while not isinstance(event := self.told.get(timeout=60), str):
            found[event[0]] = event[1].text
            count += 1
        return event, found, count


def together(worker: Worker, clients: list[Client]) -> list[tuple[str, dict[int, str], int]]:
    """Orders that the thread takes at once."""
    ready = threading.Event()
    worker.call(ready.wait)
    for client in clients:
        worker.submit(client.order)
    ready.set()
    return [client.end() for client in clients]


DOCUMENTS = [small_system.text(2, 5, seed=n) for n in range(4)]


def test_samples_with_a_memory_are_those_of_the_command() -> None:
    """The memory's sentences do not move the random streams."""
    model, task, search = small_system.model("cond_transformer"), small_system.task(), SamplingConfig(seed=3)
    options, texts = GenerationConfig(generator="sampling"), small_system.text(4, 4, seed=4)
    lines = [line for document in texts for line in document]
    memory = TranslationMemory(replace(small_system.corpus(texts), references=[TextArray.from_lines(lines)]), count=2)
    started = Worker(Translating(LoadedModels((Path("m"),), (model,), task), options, search, memory=memory))
    try:
        how, found, _ = together(started, [Client(DOCUMENTS[0])])[0]
    finally:
        started.stop()
    corpus = small_system.corpus(DOCUMENTS[0])
    expected = translate_corpus([model], task, corpus, options, search, memory=memory)
    assert (how, found) == ("done", {result.number: result.text for result in expected})


def test_a_request_that_cannot_begin_anew_ends_and_others_go_on(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker._scheduler, "step", mock.Mock(side_effect=MemoryError))
    clients = [Client(documents) for documents in DOCUMENTS[:2]]
    ready = threading.Event()
    worker.call(ready.wait)
    for client in clients:
        worker.submit(client.order)
    monkeypatch.setattr("docnmt.core.search.translate.check_memory", mock.Mock(side_effect=UserError("no room")))
    ready.set()
    assert [client.end()[0] for client in clients] == ["failed", "failed"]
    monkeypatch.undo()
    assert worker.alive
    assert together(worker, [Client(DOCUMENTS[2])])[0][0] == "done"


def test_nobody_waits_for_a_thread_that_has_ended(worker: Worker) -> None:
    worker.stop()
    with pytest.raises(RuntimeError, match="ended"):
        worker.call(list).result(timeout=10)


def test_no_request_waits_for_a_thread_that_has_ended(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request waited until its deadline, ten minutes."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(worker._scheduler, "submit", lambda job: 1 / 0)
    client = Client(small_system.text(1, 3))
    worker.submit(client.order)
    assert client.told.get(timeout=30) == "failed"
    worker._thread.join(timeout=30)
    with pytest.raises(RuntimeError, match="ended"):
        worker.submit(Client(small_system.text(1, 3)).order)


def test_a_fault_of_an_explanation_is_one_requests_alone(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [together(worker, [Client(documents)])[0] for documents in DOCUMENTS]
    wrong = Client(DOCUMENTS[0], explain=True)

    def explained(models: Any, task: Any, corpus: Any, *words: Any, **more: Any) -> Any:
        if corpus is wrong.order.sentences.corpus:
            raise RuntimeError("not to be explained")
        return explain_translations(models, task, corpus, *words, **more)

    monkeypatch.setattr("docnmt.apps.commands.translating.explain_translations", explained)
    others = [Client(documents, explain=number == 1) for number, documents in enumerate(DOCUMENTS)]
    (how, found, _), *ends = together(worker, [wrong, *others])
    assert (how, found) == ("failed", alone[0][1])
    assert [end[:2] for end in ends] == [end[:2] for end in alone]
    assert [count for _, _, count in ends] == [len(found) * (1 + (n == 1)) for n, (_, found, _) in enumerate(alone)]
    assert worker.alive


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
