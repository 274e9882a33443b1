"""docnmt-serve --workers 2: one service to its clients, whichever worker they reach, and when one is killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import small_system

pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
import httpx
from served import ROOT, Served, serve

import docnmt

LISTENS = re.compile(r"worker (\d) \(process (\d+)\) listening")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_system.save(tmp_path_factory.mktemp("model") / "m.safetensors", "hier_cond_transformer_tiny")


@pytest.fixture
def service(checkpoint: Path, tmp_path: Path) -> Iterator[Served]:
    log = tmp_path / "log"
    with serve(log, "--path", str(checkpoint), "--beam", "2", "--workers", "2", "--grace", "20") as served:
        until(lambda: len(workers(served)) == 2)
        yield served
        assert "Traceback" not in log.read_text()
    for process in processes(served):
        until(lambda process=process: not Path(f"/proc/{process}").exists())


def until(true: object, seconds: float = 30.0) -> None:
    """Wait until a function returns something true."""
    end = time.monotonic() + seconds
    while not true():  # type: ignore[operator]  # a function
        assert time.monotonic() < end
        time.sleep(0.02)


def processes(service: Served) -> list[int]:
    """All processes that have ever listened."""
    return [int(process) for _, process in LISTENS.findall(service.log.read_text())]


def workers(service: Served) -> dict[str, int]:
    """The process of each worker that has listened last."""
    return {number: int(process) for number, process in LISTENS.findall(service.log.read_text())}


def answers(service: Served, method: str, path: str, count: int = 12, **words: object) -> list[httpx.Response]:
    """The answers to one request on as many connections."""
    found = []
    for _ in range(count):
        with service.client() as client:
            found.append(client.request(method, path, **words))  # type: ignore[arg-type]
    return found


def counted(service: Served, name: str) -> dict[str, float]:
    """A counter of each worker."""
    text = answers(service, "GET", "/metrics", 1)[0].text
    found: dict[str, float] = {}
    for labels, value in re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE):
        worker = re.findall(r'worker="(\d)"', labels)[0]
        found[worker] = found.get(worker, 0) + float(value)
    return found


def test_every_client_gets_the_answer_of_one_process_and_a_killed_worker_is_replaced(
    service: Served, checkpoint: Path
) -> None:
    texts = [small_system.text(1, 3 + n % 4, seed=n) for n in range(12)]
    one = docnmt.load(str(checkpoint))
    expected = [[[each.text for each in document] for document in one.translate(text, beam=2)] for text in texts]
    victim, enough = workers(service)["2"], threading.Event()
    counts = {"right": 0, "told": 0}

    def ask(client_number: int) -> None:
        number = client_number
        while not enough.is_set():
            number = (number + 5) % len(texts)
            with service.client() as client:
                try:
                    answer = client.post("/translate", json={"documents": texts[number]})
                except httpx.TransportError:  # the connection was closed
                    counts["told"] += 1
                    continue
            assert (answer.status_code, answer.json()) == (200, {"documents": expected[number]})
            counts["right"] += 1

    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask, number) for number in range(8)]
        try:
            until(lambda: counts["right"] > 10 or any(each.done() for each in asking))
            os.kill(victim, signal.SIGKILL)
            until(lambda: len(processes(service)) == 3)
            before = counts["right"]
            until(lambda: counts["right"] > before + 10 or any(each.done() for each in asking))
        finally:
            enough.set()
        for each in asking:
            each.result(timeout=60)
    assert counts["right"] > 20  # before the kill and behind it
    assert counts["told"] <= 8  # at most what was at work there
    assert workers(service)["2"] != victim
    answers(service, "POST", "/translate", 20, json={"text": "a dog"})
    assert all(counted(service, "docnmt_sentences_total")[number] for number in "12")
    assert service.stop() == 143


def test_what_is_kept_is_the_same_whichever_worker_is_asked(service: Served) -> None:
    opened = answers(service, "POST", "/sessions", 12, json={"segments": ["The dog sees.", "A cat."]})
    assert {answer.status_code for answer in opened} == {201}
    assert {answer.json()["sessions"] for answer in answers(service, "GET", "/sessions")} == {12}
    session = opened[0].json()["session"]
    assert len({answer.text for answer in answers(service, "POST", f"/sessions/{session}/translate", 4)}) == 1
    stream = answers(service, "POST", f"/sessions/{session}/translate", headers={"accept": "application/x-ndjson"})
    assert {answer.text.splitlines()[-1] for answer in stream} == {'{"done":true}'}

    glossary = {"name": "g", "source_lang": "en", "target_lang": "de", "entries": "dog\ta tree"}
    made = answers(service, "POST", "/v2/glossaries", 1, json=glossary)[0]
    assert made.status_code == 201, made.text
    name = made.json()["glossary_id"]
    asked = {"text": ["The dog sees."], "source_lang": "EN", "target_lang": "DE"}
    with_terms = answers(service, "POST", "/v2/translate", json={**asked, "glossary_id": name})
    assert {answer.status_code for answer in with_terms} == {200}
    assert all("a tree" in answer.text for answer in with_terms)
    answers(service, "POST", "/v2/translate", json=asked)
    total = 24 * len(asked["text"][0])
    assert {answer.json()["character_count"] for answer in answers(service, "GET", "/v2/usage")} == {total}
    assert {answer.status_code for answer in answers(service, "DELETE", f"/v2/glossaries/{name}", 1)} == {204}
    assert {answer.status_code for answer in answers(service, "GET", f"/v2/glossaries/{name}")} == {404}

    files = {"file": ("a.txt", b"The dog sees.\n")}
    document = answers(service, "POST", "/v2/document", 1, data={"target_lang": "DE"}, files=files)[0].json()
    where, key = f"/v2/document/{document['document_id']}", {"document_key": document["document_key"]}
    until(lambda: {answer.json()["status"] for answer in answers(service, "POST", where, json=key)} == {"done"})
    assert sorted(answer.status_code for answer in answers(service, "POST", f"{where}/result", json=key))[:2] == [
        200,
        404,
    ]


def raw(service: Served, request: str) -> socket.socket:
    """A connection on which this has been sent."""
    host, _, port = service.address.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.sendall(request.encode())
    return connection


def test_what_is_asked_of_all_workers(service: Served) -> None:
    for path in ("/v2/usage", "/metrics"):
        for answer in answers(service, "HEAD", path, 2):
            assert answer.status_code == 200
            assert int(answer.headers["content-length"]) > 0
            assert answer.headers["x-content-type-options"] == "nosniff"
    for path in ("/v2/usage", "/sessions") * 4:
        with raw(service, f"GET {path} HTTP/1.0\r\n\r\n") as connection:  # Host may be left out
            assert connection.recv(1000).startswith(b"HTTP/1.1 421 ")


def test_a_worker_that_does_not_answer_is_not_waited_for(service: Served) -> None:
    stopped = workers(service)["2"]
    os.kill(stopped, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(8) as pool, contextlib.ExitStack() as clients:
            asking = [pool.submit(clients.enter_context(service.client()).get, "/metrics") for _ in range(8)]
            until(lambda: any(each.done() for each in asking))
            os.kill(stopped, signal.SIGCONT)
            found = [each.result(timeout=30).text for each in asking]
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert any('worker="1"' in text and 'worker="2"' not in text for text in found)


def test_whoever_sends_a_body_is_told_that_the_service_stops(checkpoint: Path, tmp_path: Path) -> None:
    started = serve(tmp_path / "log", "--path", str(checkpoint), "--workers", "2", "--grace", "0")
    head = "POST /v2/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n"
    with started as service, contextlib.ExitStack() as connections:
        until(lambda: len(workers(service)) == 2)
        sending = [connections.enter_context(raw(service, f'{head}\r\n{{"text"')) for _ in range(8)]
        time.sleep(0.5)
        assert service.stop() == 143
        for connection in sending:
            assert connection.recv(1000).startswith(b"HTTP/1.1 503 ")
        assert "Traceback" not in service.log.read_text()


def test_without_the_first_worker_what_it_kept_is_lost_and_said_to_be(service: Served) -> None:
    session = answers(service, "POST", "/sessions", 1, json={})[0].json()["session"]
    os.kill(workers(service)["1"], signal.SIGSTOP)  # so that the request is under way when it dies
    with ThreadPoolExecutor(8) as pool, contextlib.ExitStack() as clients:
        asking = [pool.submit(clients.enter_context(service.client()).get, f"/sessions/{session}") for _ in range(8)]
        time.sleep(1)
        os.kill(workers(service)["1"], signal.SIGKILL)
        for each in asking:
            try:
                answer = each.result(timeout=20)
            except httpx.TransportError:
                continue
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "lost")
    until(lambda: len(processes(service)) == 3)
    assert {answer.status_code for answer in answers(service, "GET", f"/sessions/{session}")} == {404}


def test_workers_end_with_the_process_that_started_them(service: Served) -> None:
    own = processes(service)
    service.process.kill()
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in own))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_requests_are_finished_on_a_signal(service: Served, number: signal.Signals, status: int) -> None:
    documents = small_system.text(6, 12, seed=1)

    def ask(_: int) -> int:
        with service.client() as client:
            return client.post("/translate", json={"documents": documents}).status_code

    with ThreadPoolExecutor(6) as pool:
        asking = pool.map(ask, range(6))
        until(lambda: 'docnmt_requests_active{worker="1"} 0.0' not in answers(service, "GET", "/metrics", 1)[0].text)
        assert service.stop(number) == status
        assert set(asking) <= {200, 503}


def test_a_second_service_is_refused_the_same_address(service: Served, checkpoint: Path) -> None:
    port = service.address.rpartition(":")[2]
    words = [sys.executable, "-m", "docnmt.cli.serve", "--path", str(checkpoint), "--port", port, "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*words, "--device", "cpu"], capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 1
    assert f"--port {port}" in done.stderr
