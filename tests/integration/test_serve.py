"""docnmt-serve as a process: what it answers, that this is the command's, how it stops."""

from __future__ import annotations

import base64
import json
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sample_documents
import small_system
from commands import SHORT, translated, until

pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
from served import Served, serve

import docnmt
from docnmt.cli.serve import main as serve_command
from docnmt.cli.translate import main as translate_command


def test_requests_at_once_get_what_the_command_gives_each_alone(
    running: Served, document_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [small_system.text(1 + n % 3, 2 + n % 7, seed=n) for n in range(5)]
    texts = ["\n".join(" ".join(document) for document in small_system.text(4, 4, seed=50 + n)) for n in range(3)]
    bodies = [{"documents": documents} for documents in asked] + [{"text": f"{text}\n\n"} for text in texts]
    together = threading.Barrier(len(bodies))

    def post(body: object) -> dict[str, object]:
        with running.client() as client:
            together.wait()
            answer = client.post("/translate", json=body)
            assert answer.status_code == 200
            content: dict[str, object] = answer.json()
            return content

    with ThreadPoolExecutor(len(bodies)) as pool:
        answers = list(pool.map(post, bodies))
    for documents, answer in zip(asked, answers[:5], strict=True):
        corpus = "\n\n".join("\n".join(document) for document in documents) + "\n"
        lines = translated(document_model, corpus, monkeypatch, *SHORT, "--input-format", "corpus")
        assert "\n\n".join("\n".join(document) for document in answer["documents"]) + "\n" == lines  # type: ignore[attr-defined]
    for text, answer in zip(texts, answers[5:], strict=True):
        assert answer.pop("limited", True) is True
        assert answer == {"text": translated(document_model, f"{text}\n\n", monkeypatch, *SHORT)}


@pytest.mark.parametrize(("name", "content"), [("a.md", sample_documents.MD), ("b.po", sample_documents.PO)])
def test_a_file_is_what_the_command_makes_of_it(
    name: str, content: str, running: Served, document_model: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    words = ["--path", str(document_model), "--beam", "2", "--device", "cpu", *SHORT, str(tmp_path / name)]
    assert translate_command([*words, "-o", str(tmp_path / f"out-{name}")]) == 0
    expected = (tmp_path / f"out-{name}").read_bytes()
    with running.client() as client:
        answer = client.post("/translate/file", params={"name": f"../../{name}"}, content=content.encode())
        assert answer.content == expected
        assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{name}"
        kind = {"kind": name.partition(".")[2]}
        assert client.post("/translate/file", params=kind, content=content.encode()).content == expected
        assert client.post("/translate/file", files={"file": (name, content.encode())}).content == expected
        accept = {"accept": "application/x-ndjson"}
        streamed = client.post("/translate/file", params={"name": name}, content=content.encode(), headers=accept)
    lines = [json.loads(line) for line in streamed.text.splitlines()]
    assert base64.b64decode(lines[-1]["file"]["content"]) == expected
    sentences = {(n, m) for n, line in enumerate(lines[0]["source"]) for m in range(len(line))}
    assert {(line["line"], line["sentence"]) for line in lines[1:-1]} == sentences


@pytest.mark.parametrize("content", [b"", b"\n \n", b"42\n", b"42. 7"])
def test_files_without_words_come_back(content: bytes, running: Served) -> None:
    with running.client() as client:
        assert client.post("/translate/file?name=a.txt", content=content).content == content
        lines = client.post("/translate/file?name=a.txt", content=content, headers={"Accept": "application/x-ndjson"})
    assert base64.b64decode(json.loads(lines.text.splitlines()[-1])["file"]["content"]) == content


def test_what_was_read_is_what_the_library_says(running: Served, document_model: Path) -> None:
    documents = [["the dog.", "", "a cat sees it.", "the river."], ["a tree."]]
    with running.client() as client:
        answer = client.post("/translate", json={"documents": documents, "explain": True}).json()
        plain = client.post("/translate", json={"documents": documents}).json()
        accept = {"accept": "application/x-ndjson"}
        body = {"documents": documents, "explain": True}
        streamed = client.post("/translate", json=body, headers=accept).text.splitlines()
    assert answer["documents"] == plain["documents"]
    assert "reads" not in plain
    expected = docnmt.load(document_model).translate(documents, beam=2, max_len_a=1, max_len_b=2, explain=True)
    for explained, document, sentences in zip(answer["reads"], expected, documents, strict=True):
        for reads, translation, sentence in zip(explained, document, sentences, strict=True):
            if not sentence:
                assert reads is None
                continue
            assert reads["pieces"] == list(translation.pieces)
            for ours, theirs in zip(reads["heads"], translation.reads, strict=True):
                assert [head["sentences"] for head in ours] == [list(head.sentences) for head in theirs]
    assert next(line for line in map(json.loads, streamed) if "reads" in line)["reads"] == answer["reads"][0][0]


def test_shape_and_sentences_without_text_stay(running: Served) -> None:
    with running.client() as client:
        answer = client.post("/translate", json={"documents": [["the dog.", " ", "a cat."], [], [""]]}).json()
        alone = client.post("/translate", json={"documents": [["the dog.", "a cat."]]}).json()["documents"][0]
        assert answer["documents"] == [[alone[0], "", alone[1]], [], [""]]
        assert client.post("/translate", json={"documents": []}).json() == {"documents": []}
        assert client.post("/translate", json={"text": ""}).json() == {"text": ""}
        assert client.post("/translate", json={"text": "\n\n"}).json() == {"text": "\n\n"}


def test_a_client_that_goes_frees_its_rows(running: Served) -> None:
    body = json.dumps({"documents": small_system.text(40, 40, seed=3)}).encode()
    head = (
        f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    with running.connected() as raw:
        raw.sendall(f"{head}\r\n\r\n".encode() + body)
        with running.client() as client:
            until(lambda: metric(client, "sentences_at_work") > 0)
    with running.client() as client:
        until(lambda: metric(client, "sentences_at_work") == metric(client, "requests_active") == 0)
    assert "499" in running.log.read_text()


def metric(client: Any, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"docnmt_{name} "))


def memory(served: Served) -> int:
    """Resident kB."""
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def test_a_hundred_megabytes_are_refused_early_and_kept_nowhere(running: Served) -> None:
    before = memory(running)
    head = "POST /translate/file?name=a.docx HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"
    with running.connected() as client:
        client.sendall(head.encode() + b"a" * 1000)
        assert b" 413 " in client.recv(4096)  # before it was sent
    with running.client() as other:
        sent = 0

        def parts() -> Iterator[bytes]:
            nonlocal sent
            for _ in range(100):
                sent += 1
                yield b"a" * 1_000_000

        answer = other.post("/translate/file?name=a.docx", content=parts())
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert other.post("/translate", json={"text": "A dog."}).status_code == 200
    assert memory(running) - before < 40_000  # what a body may have, and what holds it while it is read


def test_logs_have_a_line_a_request_and_no_text(running: Served) -> None:
    with running.client() as client:
        client.post("/translate?secret=hippopotamus", json={"text": "hippopotamus"})
        client.get("/hippopotamus")
    until(lambda: "GET other 404" in running.log.read_text())  # a line is written after its answer
    assert "hippopotamus" not in running.log.read_text()
    assert "POST /translate 400" in running.log.read_text()  # a parameter that is none


def test_what_no_proxy_says_is_not_believed(running: Served) -> None:
    form = {"files": {"file": ("a.txt", b"a dog.\n")}, "data": {"source": "en", "target": "de"}}
    with running.client(headers={"x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.9"}) as client:
        assert client.post("/translate_file", **form).json()["translatedFileUrl"].startswith("http://")


def test_a_token_is_asked_for_and_sigterm_finishes_what_is_at_work(document_model: Path, tmp_path: Path) -> None:
    token, secret = tmp_path / "token", "0123456789abcdef"
    token.write_text(f"{secret}\n")
    token.chmod(0o600)
    words = ["--path", str(document_model), *SHORT, "--token-file", str(token)]
    headers = {"authorization": f"Bearer {secret}", "host": "anything.example"}
    documents = small_system.text(12, 20, seed=5)  # a second of work: it must be seen
    with serve(tmp_path / "log", *words) as served:
        with served.client() as client, ThreadPoolExecutor(1) as pool:
            assert client.get("/health").status_code == client.get("/ready").status_code == 200
            for wrong in ({}, *({"authorization": said} for said in ("Bearer wrong", f"Basic {secret}", secret))):
                answer = client.post("/translate", json={"text": "a"}, headers=wrong)
                assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
                assert client.get("/metrics", headers=wrong).status_code == 401
            assert client.post("/translate", json={"text": "a"}, headers=headers).status_code == 200
            coming = pool.submit(lambda: client.post("/translate", json={"documents": documents}, headers=headers))
            with served.client(headers=headers) as other:
                until(lambda: metric(other, "sentences_at_work") > 0)
            served.process.send_signal(signal.SIGTERM)
            answer = coming.result()
        assert answer.status_code == 200
        assert [len(document) for document in answer.json()["documents"]] == [len(document) for document in documents]
        assert served.process.wait(timeout=30) == 143
    assert secret not in (tmp_path / "log").read_text()


def test_what_the_end_breaks_off_is_told_so(document_model: Path, tmp_path: Path) -> None:
    """A stream and a document, at a hang-up."""
    documents = small_system.text(300, 20, seed=5)
    headers = {"accept": "application/x-ndjson"}
    started = serve(tmp_path / "log", "--path", str(document_model), "--grace", "0")
    with started as served, served.client() as client, ThreadPoolExecutor(2) as pool:
        coming = [pool.submit(client.post, "/translate", json={"documents": documents}, headers=headers)]
        with served.client() as other:
            until(lambda: metric(other, "sentences_at_work") > 0)
            text = "\n".join(documents[0] * 40)
            coming.append(pool.submit(client.post, "/translate/file?name=a.txt", content=text))
            until(lambda: metric(other, "requests_active") == 2)
        served.process.send_signal(signal.SIGHUP)
        answers = [future.result() for future in coming]
        assert served.process.wait(timeout=30) == 143
    assert [answer.status_code for answer in answers] == [200, 503]
    assert {json.loads(answer.text.splitlines()[-1])["error"]["code"] for answer in answers} == {"stopping"}
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("content", "mode", "named"),
    [
        ("0123456789abcdef", 0o644, "chmod 600"), ("short", 0o600, "16 ASCII"), ("", 0o600, "16 ASCII"),
        (None, 0, "--token-file"),
    ],
)  # fmt: skip
def test_token_files_are_checked(
    content: str | None, mode: int, named: str, document_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
        token.chmod(mode)
    assert serve_command(["--path", str(document_model), "--token-file", str(token)]) == 1
    error = capsys.readouterr().err
    assert named in error
    assert error.count("token:" if content is None else "token") >= 1
