"""docnmt-serve as a process, and requests that are made to stop it: what one costs, it costs that one only."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from commands import until
from served import Served, serve

from docnmt.apps.serve import run as run_service
from docnmt.apps.serve.file_processes import (
    Answer,
    Failed,
    FileProcesses,
    FileRequest,
    FileSource,
    FileTask,
    Question,
    Unread,
    Written,
)
from docnmt.cli.serve import main as serve_command


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Readers of documents with faults: in every process that is started, `.txt` files may ask for one."""
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "sitecustomize.py").write_text(
        "import re, sys\n"
        "if 'docnmt.apps.serve.file_processes' in getattr(sys, 'orig_argv', []):\n"
        "    from docnmt.apps.documents.text import PlainText\n"
        "    begin = PlainText.__init__\n"
        "    def faulty(self, content, **more):\n"
        "        if content.startswith(b'FREEZE'):\n"
        "            re.match('(a|aa)+$', 'a' * 90 + 'b')\n"
        "        if content.startswith(b'SWELL'):\n"
        "            self.much = [bytes(1_000_000) for _ in range(100_000)]\n"
        "        if content.startswith(b'CRASH'):\n"
        "            import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n"
        "        begin(self, content, **more)\n"
        "    PlainText.__init__ = faulty\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "faults"))
    return tmp_path / "faults"


def translate(
    files: FileProcesses, content: bytes, kind: str = "txt", asked: Callable[[], object] = str
) -> Written | Failed | str:
    """Translate by a model that writes capitals; `asked` is called before it answers for the first time."""
    task = FileTask(FileSource(content, kind, f"a.{kind}"), ("en", "de"), "rules", 1000, 10_000, True)
    request, answers = FileRequest(None, time.monotonic() + 60), list[Answer]()
    try:
        while isinstance(reply := files.ask(task, answers, request), Question):
            if not answers:
                asked()
            texts = [sentence.text.upper() for sentence in reply.sentences if sentence.given is None]
            answers.append(Answer(texts=texts, spans=[[(0, 0)] for _ in reply.pairs]))
        return reply
    except Unread as unread:
        return unread.how


@pytest.fixture
def files(faulty: Path) -> Iterator[FileProcesses]:
    processes = FileProcesses(2, memory=400_000_000, seconds=4)
    yield processes
    processes.close()


@pytest.mark.parametrize(
    ("content", "how"),
    [(b"FREEZE", "slow"), (b"CRASH", "died"), (b"SWELL", "(--file-memory)"), (b"\xff\xfe", "UTF-16")],
)
def test_a_fault_costs_the_document_that_has_it(files: FileProcesses, content: bytes, how: str) -> None:
    good = Written(b"THE DOG. A CAT.\n", [])
    assert translate(files, b"The dog. A cat.\n") == good
    bad = translate(files, content)
    assert how in (bad if isinstance(bad, str) else bad.message if isinstance(bad, Failed) else "")
    assert translate(files, b"The dog. A cat.\n") == good


def test_documents_take_turns_in_one_process_and_are_the_same() -> None:
    """Each asks twice or more; meanwhile the process reads the others, and then those again from their beginning."""
    files, barrier = FileProcesses(1, memory=10**9, seconds=60), threading.Barrier(3)
    texts = [f"The *dog* {n}. A `cat` sees it.\n\n- A tree\n".encode() for n in range(3)]
    alone = [translate(files, text, "md") for text in texts]
    assert all(isinstance(answer, Written) for answer in alone)

    with ThreadPoolExecutor(3) as pool:  # none is answered until all have been read
        together = list(pool.map(lambda text: translate(files, text, "md", lambda: barrier.wait(30)), texts))
    files.close()
    assert together == alone


def children(service: Served) -> list[int]:
    """The processes that a service has started."""
    pids = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if f"PPid:\t{service.process.pid}\n" in text and "State:\tZ" not in text:
            pids.append(int(status.parent.name))
    return pids


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_though_a_document_is_read(
    faulty: Path, document_model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Health is answered beside; the signal is obeyed."""
    words = ["--path", str(document_model), "--grace", "1", "--file-timeout", "8"]
    with serve(tmp_path / "log", *words, path=faulty) as service:

        def post() -> int | None:
            with service.client() as client:
                try:
                    return client.post("/translate/file?name=a.txt", content=b"FREEZE").status_code
                except httpx.TransportError:
                    return None

        until(lambda: bool(children(service)))
        with ThreadPoolExecutor(1) as pool, service.client() as client:
            coming = pool.submit(post)
            until(lambda: "docnmt_requests_active 1.0" in client.get("/metrics").text)
            assert client.get("/health").status_code == 200
            ok = client.post("/translate/file?name=a.txt", content=b"A dog.\n")  # in another process
            assert ok.status_code == 200, ok.text
            started = children(service)
            assert service.stop(number) == (143 if number == signal.SIGTERM else -9)
            assert coming.result() == (503 if number == signal.SIGTERM else None)
        until(lambda: not any(Path(f"/proc/{child}").exists() for child in started))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_need_a_secret(host: str, document_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve_command(["--path", str(document_model), "--host", host, "--port", "0"]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in ("--host", host, "--token-file", "--open"))


@pytest.fixture(scope="module")
def service(document_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    log = tmp_path_factory.mktemp("service") / "log"
    words = ["--host", "0.0.0.0", "--open", "--proxy", "127.0.0.0/8", "--queue-length", "8"]
    with serve(log, "--path", str(document_model), "--beam", "2", *words) as served:
        served.address = served.address.replace("0.0.0.0", "127.0.0.1")
        yield served
        assert "Traceback" not in log.read_text()


def answered(connection: socket.socket) -> bytes:
    """All that comes until the service closes the connection."""
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def raw(service: Served, content: bytes) -> bytes:
    """The answer to these bytes."""
    with service.connected() as connection:
        connection.sendall(content)
        return answered(connection)


@pytest.mark.parametrize(
    "content",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: [::1\r\nConnection: close\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost:80:80\r\nConnection: close\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost/x@y\r\nConnection: close\r\n\r\n",
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_as_all_else_is(service: Served, content: bytes) -> None:
    head, _, body = raw(service, content).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    for name in (b"x-content-type-options: nosniff", b"content-security-policy:", b"cache-control: no-store"):
        assert name in head.lower()
    assert json.loads(body)["error"]["status"] == 400


def test_nonsense_behind_an_answer_ends_the_connection(service: Served) -> None:
    with service.connected() as connection:
        connection.sendall(
            b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
        )
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 404 ")
        connection.sendall(b"ZZ\r\n")
        answered(connection)  # `service` looks for a traceback in the log


def test_an_address_may_be_whole(service: Served) -> None:
    for line in (b"GET http://localhost/health HTTP/1.1", b"GET /health HTTP/1.1"):
        answer = raw(service, line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")


def test_answers_are_sent_without_delay() -> None:
    with run_service.listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # else asyncio leaves Nagle's algorithm on


def test_a_proxy_that_is_named_says_where_a_request_comes_from(service: Served) -> None:
    """And no other: `test_serve`."""
    form = {"files": {"file": ("a.txt", b"a dog.\n")}, "data": {"source": "en", "target": "de"}}
    with service.client(headers={"x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.9"}) as client:
        assert client.post("/translate_file", **form).json()["translatedFileUrl"].startswith("https://")


def test_a_client_has_a_share_and_others_have_theirs(service: Served) -> None:
    """Slow bodies: two of eight places are a client's share."""
    head = (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n"
        b"X-Forwarded-For: 198.51.100.7\r\n\r\n{"
    )
    with service.connected() as one, service.connected() as other, service.client() as client:
        for slow in (one, other):
            slow.sendall(head)
        until(lambda: "docnmt_requests_active 2.0" in client.get("/metrics").text)
        theirs, another = (
            client.post("/translate", headers={"x-forwarded-for": f"198.51.100.{n}"}, json={"text": "a dog."})
            for n in (7, 8)
        )
    assert (theirs.status_code, theirs.json()["error"]["code"]) == (429, "queue_full")
    assert int(theirs.headers["retry-after"]) > 0
    assert another.status_code == 200


def refused_head(length: int, *more: bytes) -> bytes:
    """The head of a request that is refused and closed before its body is read."""
    lines = b"POST /translate HTTP/1.1", b"Host: localhost", b"Origin: http://example.org", b"Connection: close", *more
    return b"".join(line + b"\r\n" for line in (*lines, b"Content-Length: %d" % length, b""))


def test_a_refused_request_with_a_large_body_gets_its_answer(service: Served) -> None:
    for _ in range(5):
        assert raw(service, refused_head(6_000_000) + bytes(6_000_000)).startswith(b"HTTP/1.1 403 ")


def test_a_refused_request_without_end_is_cut_off(service: Served) -> None:
    with service.connected() as slow, service.connected() as fast:
        slow.sendall(refused_head(1_000) + b"{")
        fast.sendall(refused_head(10**12))

        def flood() -> None:
            while True:
                fast.sendall(bytes(1 << 20))

        with pytest.raises(OSError, match=r"reset|Broken"):
            flood()
        assert answered(slow).startswith(b"HTTP/1.1 403 ")


def test_a_log_that_nobody_reads_stops_nothing_and_says_what_is_missing() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as reader, open(writing, "w", encoding="utf-8") as stream:
        log = run_service.lasting(stream, waits=False)
        for number in range(20_000):  # more than a pipe takes
            print(f"line {number}", file=log)
        os.set_blocking(reading, False)
        first = reader.read(1 << 20)
        print("a last line", file=log)
        second = reader.read(1 << 20)
    assert first.startswith(b"line 0\nline 1\n")
    lost = b"".join(b"line %d\n" % number for number in range(20_000))[len(first) :]
    assert second.endswith(b"a last line\n")
    assert str(len(lost)).encode() in second
