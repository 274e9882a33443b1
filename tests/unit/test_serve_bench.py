"""The load test of the service: what it sends, and that it stops when it should."""

from __future__ import annotations

import asyncio
import importlib
import json
import random
import subprocess
import sys
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools" / "bench"))
    for name in ("serve", "service", "clients"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("serve")


class Answering:
    """A service that upper-cases, of which some requests never end."""

    def __init__(self, *, lost: bool = False, wrong: bool = False, stuck: bool = False) -> None:
        self.lost, self.wrong, self.stuck = lost, wrong, stuck
        self.asked: list[int] = []

    def memory(self) -> float:
        return 100.0

    async def post(
        self, body: bytes, *, accept: str = "*/*", pause: float = 0.0, leave: float = 0.0, path: str = "/translate"
    ) -> tuple[int, bytes]:
        await asyncio.sleep(0)
        try:
            documents = json.loads(body)["documents"]
        except ValueError:
            return 400, b"invalid_request"
        self.asked.append(sum(map(len, documents)))
        if self.stuck:
            await asyncio.Event().wait()
        if self.lost:
            raise ConnectionResetError("gone")
        found = [[sentence.upper() + "?" * self.wrong for sentence in document] for document in documents]
        if accept == "*/*":
            return 200, json.dumps({"documents": found}).encode()
        lines = [
            {"document": n, "sentence": m, "text": text} for n, each in enumerate(found) for m, text in enumerate(each)
        ]
        return 200, "".join(json.dumps(line) + "\n" for line in [*lines[::-1], {"done": True}]).encode()


def load(bench: ModuleType) -> Any:
    source = [[f"d{n} s{m}" for m in range(1 + n % 4)] for n in range(9)]
    return bench.Load(source, [[each.upper() for each in document] for document in source], 5)


def test_documents_are_divided_and_chosen_within_limits(bench: ModuleType) -> None:
    text = "\n\n".join("\n".join(f"{n}.{m}" for m in range(n)) for n in (3, 7, 1, 12)) + "\n"
    documents = bench.divided(text, 5)
    assert [len(document) for document in documents] == [3, 5, 2, 1, 5, 5, 2]
    assert list(chain.from_iterable(documents)) == [line for line in text.split("\n") if line]
    assert [len(bench.first(documents, n)) for n in (0, 3, 7, 8, 22, 23, 99)] == [1, 1, 1, 2, 6, 7, 7]
    loaded = load(bench)
    for seed in range(200):
        chosen = loaded.choose(random.Random(seed))
        assert sum(len(loaded.source[n]) for n in chosen) <= 5
        assert chosen


@pytest.mark.parametrize("how", ["right", "lost", "wrong"])
def test_answers_are_judged(how: str, bench: ModuleType) -> None:
    loaded = load(bench)
    server = Answering(**({} if how == "right" else {how: True}))
    rng = random.Random(1)

    async def ask() -> None:
        for kind in ("whole", "streams", "slow", "leaves", "nonsense"):
            try:
                await loaded.ask(server, [1, 2], kind, rng)
            except ConnectionResetError:
                loaded.counts["WRONG lost"] += 1  # as the clients do

    asyncio.run(ask())
    wrong = {kind for kind in loaded.counts if kind.startswith("WRONG")}
    answered = {f"WRONG {kind}, status 200" for kind in ("whole", "streams", "slow")}
    assert wrong == {"right": set(), "lost": {"WRONG lost"}, "wrong": answered}[how]


#: A process that answers at a free port with what is given, and ends.
ANSWERS = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    connection, _ = server.accept()
    connection.recv(1 << 16)
    connection.sendall(sys.argv[1].encode())
"""
HEAD = "HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "answer",
    ["", HEAD, f"{HEAD}Content-Length: 9\r\n\r\n{{}}", f"{HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n"],
)
def test_a_part_of_an_answer_is_none(answer: str, bench: ModuleType) -> None:
    service = sys.modules["service"]
    with subprocess.Popen([sys.executable, "-c", ANSWERS, answer], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        server = service.Server([], port=int(process.stdout.readline()), process=process)
        with pytest.raises(ConnectionResetError):
            asyncio.run(server.post(b"{}"))
    server.log.unlink()


def test_a_service_that_does_not_answer_does_not_keep_it(bench: ModuleType) -> None:
    loaded = load(bench)
    samples = asyncio.run(bench.storm(Answering(stuck=True), loaded, 4, 0.001, 0.05))
    assert samples
    assert loaded.counts["still at work 0.05 s after the end"] == 4
    assert not any(kind.startswith("WRONG") for kind in loaded.counts)


def test_memory_that_grows_is_told(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    for samples, minutes, grew in (([1, 10, 10, 10.9], 10, 0), ([1, 10, 10, 12], 10, 1), ([1, 10, 10, 12], 1, 0)):
        loaded = load(bench)
        bench.report(loaded, samples, minutes)
        assert loaded.counts["WRONG memory grew"] == grew
    assert "largest of each quarter: 1, 10, 10, 12" in capsys.readouterr().out
