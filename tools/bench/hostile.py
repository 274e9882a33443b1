"""Requests that are made to stop docnmt-serve: seconds to each answer, and the slowest /health meanwhile.

    python tools/bench/hostile.py MODEL [--only NAME ...] [--keep recipes/studies/service/service.jsonl]

MODEL is any checkpoint. Every input is sent to one service, one after the other, while /health is asked every 50 ms.
Then a service is stopped by SIGTERM while it reads a large file, with --grace 1 and with --grace 5: the seconds until
it has ended, and whether a process of it is left. Prints a table in Markdown; `--keep` writes it to a kept file as
hostile.json. The seconds of processors are those of all processes of the service. Ends with status 1 if an answer took
a second, /health 0.3, or the end grace + 3 seconds.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes" / "studies" / "tools"))
from measured import keep
from service import Server

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
#: Reads for ever: comments of JavaScript in an expression that does not end. (178 bytes)
FREEZE = b"{" + b"/**/" * 40 + b"x}" + b" " * 15
#: Bounds, in seconds.
ANSWER, HEALTH, BEHIND = 1.0, 0.3, 3.0
COLUMNS = ("input", "bytes", "status", "seconds", "of processors", "slowest /health, s")


def docx(body: str) -> bytes:
    """A file of Word with this in its body."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("word/document.xml", f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>')
    return out.getvalue()


def lines(form: str, count: int) -> bytes:
    """So many entries of a catalogue."""
    return "".join(form.format(number) for number in range(count)).encode()


def said(**fields: object) -> bytes:
    """A body in JSON."""
    return json.dumps(fields).encode()


RUN = "<w:r><w:t>a </w:t></w:r>"
BOLD = f"<w:r><w:rPr><w:b/></w:rPr><w:t>a </w:t></w:r>{RUN}"
PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
CUE = "{0}\n00:00:01,000 --> 00:00:02,000\na\n\n"
PROMPT = {"role": "user", "content": "translate from" + " " * 990 + "x"}
#: A file is sent to /translate/file; of anything else the path and the type are told.
INPUTS: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "178 bytes of MDX": ("a.mdx", lambda: FREEZE, ""),
    "MDX, 200,000 open braces": ("a.mdx", lambda: b"{" * 200_000, ""),
    "MDX, 200,000 open tags": ("a.mdx", lambda: b"<a " * 200_000, ""),
    "chat, `from` and 990 spaces × 7,000": ("/v1/chat/completions", lambda: said(messages=[PROMPT] * 7000), JSON),
    "chat of 3.9 M newlines": (
        "/v1/chat/completions", lambda: said(messages=[{"role": "user", "content": "\n" * 3_900_000}]), JSON),
    "chat of 2.6 M messages": ("/v1/chat/completions", lambda: b'{"messages":[' + b"{}," * 2_600_000 + b"{}]}", JSON),
    "PO, `Content-Type:` repeated": ("a.po", lambda: b'"Content-Type: ' * 20_000, ""),
    "front matter of newlines": ("a.md", lambda: b"---\n" + b"\n" * 1_000_000, ""),
    "/translate, 3.9 M newlines": ("/translate", lambda: said(text="\n" * 3_900_000), JSON),
    "/translate, 2.6 M sentences": ("/translate", lambda: b'{"documents":[[' + b'"",' * 2_600_000 + b'""]]}', JSON),
    "/translate, 1.9 M empty documents": ("/translate", lambda: b'{"documents":[' + b"[]," * 1_900_000 + b"[]]}", JSON),
    "/translate, `A. ` × 2.6 M": ("/translate", lambda: said(text="A. " * 2_600_000), JSON),
    "LibreTranslate, 2.6 M texts": (
        "/translate", lambda: b'{"source":"SOURCE","target":"TARGET","q":[' + b'"",' * 2_600_000 + b'""]}', JSON),
    "DeepL, 2.6 M texts": (
        "/v2/translate", lambda: b'{"target_lang":"TARGET","text":[' + b'"",' * 2_600_000 + b'""]}', JSON),
    "DeepL, a form of 1.3 M texts": ("/v2/translate", lambda: b"target_lang=TARGET" + b"&text=" * 1_300_000, FORM),
    "DeepL, 1.9 M elements of XML": (
        "/v2/translate", lambda: said(target_lang="TARGET", tag_handling="xml", text="<a/>" * 1_900_000), JSON),
    "DeepL, 60,000 open marks of HTML": (
        "/v2/translate", lambda: said(target_lang="TARGET", tag_handling="html", text="<b>x" * 60_000), JSON),
    "XML, 2 M empty elements": ("a.xml", lambda: b"<resources>" + b"<a/>" * 1_950_000 + b"</resources>", ""),
    "DOCX, 200,000 paragraphs": ("a.docx", lambda: docx("<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 200_000), ""),
    "DOCX, 200,000 empty paragraphs": ("a.docx", lambda: docx("<w:p/>" * 200_000), ""),
    "DOCX, 300,000 runs": ("a.docx", lambda: docx(f"<w:p>{RUN * 300_000}</w:p>"), ""),
    "DOCX, 300,000 bold runs": ("a.docx", lambda: docx(f"<w:p>{BOLD * 150_000}</w:p>"), ""),
    "HTML, 60,000 open marks": ("a.html", lambda: b"<b>x" * 60_000, ""),
    "HTML, 100,000 entities": ("a.html", lambda: b"&amp;" * 100_000, ""),
    "HTML, 200,000 paragraphs": ("a.html", lambda: b"<p>x" * 200_000, ""),
    "YAML, 100,000 keys": ("a.yaml", lambda: lines("k{}: a\n", 100_000), ""),
    "JSON, 100,000 texts": ("a.json", lambda: b"[" + b'"a",' * 100_000 + b'"a"]', ""),
    "PO, 100,000 messages": ("a.po", lambda: PO.encode() + lines('msgid "a{}"\nmsgstr ""\n\n', 100_000), ""),
    "XML of Android, 100,000 strings": (
        "a.xml", lambda: b"<resources>" + b'<string name="a">a</string>' * 100_000 + b"</resources>", ""),
    "SRT, 100,000 subtitles": ("a.srt", lambda: lines(CUE, 100_000), ""),
    "TXT, 900,000 dots": ("a.txt", lambda: b"." * 900_000, ""),
    "TXT, 400,000 lines": ("a.txt", lambda: b"a\n" * 400_000, ""),
    "TXT, `A. ` × 2.6 M": ("a.txt", lambda: b"A. " * 2_600_000, ""),
    "Markdown, ` {#a}` × 40,000": ("a.md", lambda: b"# a" + b" {#a}" * 40_000, ""),
    "Markdown, 100,000 paragraphs": ("a.md", lambda: b"a\n\n" * 100_000, ""),
}  # fmt: skip


@dataclass
class Health:
    """Asks for /health every 50 ms."""

    port: int
    slowest: float = 0.0
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until it is stopped."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        while not self.stopped.wait(0.05):
            begun = time.monotonic()
            connection.request("GET", "/health")
            answer = connection.getresponse()
            answer.read()
            self.slowest = max(self.slowest, time.monotonic() - begun if answer.status == 200 else float("inf"))


def post(port: int, path: str, body: bytes, kind: str) -> int | str:
    """The status of the answer; what broke the connection off, where there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    try:
        connection.request("POST", path, body, {"Content-Type": kind} if kind else {})
        return connection.getresponse().status
    except OSError as error:
        return type(error).__name__
    finally:
        connection.close()


def ended(options: list[str], grace: int) -> tuple[list[str], bool]:
    """SIGTERM while a file is read that never ends: a row, and whether it was in time and nothing is left."""
    server = Server([*options, "--max-request-tokens", "10000000", "--grace", str(grace)])
    server.start()
    got: list[int | str] = []
    reading = threading.Thread(target=lambda: got.append(post(server.port, "/translate/file?name=a.pot", SLOW, "")))
    reading.start()
    time.sleep(1)
    family, begun = server.family(), time.monotonic()
    server.stop()
    took = time.monotonic() - begun
    reading.join()
    time.sleep(0.2)
    left = [pid for pid in family if alive(pid)]
    name = f"SIGTERM, `--grace {grace}`" + (f"; {len(left)} processes are left" if left else "")
    return [name, f"{len(SLOW):,}", str(got[0]), f"{took:.1f}", "–", "–"], took < grace + BEHIND and not left


def alive(process: int) -> bool:
    """Whether a process runs; one that has ended may stay in the list until its parent looks."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


#: Takes long to read.
SLOW = PO.encode() + lines('msgid "a {{0}} b <b>{{1}}</b> $x {0}."\nmsgstr "b. c. d."\n\n', 90_000)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a checkpoint")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="inputs whose names begin so")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="a kept file")
    given = parser.parse_args(argv)
    options = ["--path", given.model, "--device", "cpu", "--beam", "1"]
    server, rows, good = Server(options), list[list[str]](), True
    server.start()
    post(server.port, "/translate", said(text="A word."), JSON)
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", "/openapi.json")
    pair = json.loads(connection.getresponse().read())["info"]["x-languages"]
    print(f"| {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * (len(COLUMNS) - 1)}")
    for name, (path, made, kind) in INPUTS.items():
        if given.only and not name.startswith(tuple(given.only)):
            continue
        body = made().replace(b"SOURCE", pair["source"].encode()).replace(b"TARGET", pair["target"].encode())
        health = Health(server.port)
        asking = threading.Thread(target=health.run)
        asking.start()
        time.sleep(0.3)
        begun, before = time.monotonic(), server.seconds()
        status = post(server.port, path if path[0] == "/" else f"/translate/file?name={path}", body, kind)
        took = time.monotonic() - begun
        health.stopped.set()
        asking.join()
        used = f"{server.seconds() - before:.2f}"
        row = [name, f"{len(body):,}", str(status), f"{took:.2f}", used, f"{health.slowest:.2f}"]
        good &= took < ANSWER and health.slowest < HEALTH
        rows.append(row)
        print(f"| {' | '.join(row)} |", flush=True)
    server.stop()
    for grace in (1, 5) if not given.only else ():
        row, well = ended(options, grace)
        good &= well
        rows.append(row)
        print(f"| {' | '.join(row)} |", flush=True)
    if given.keep:
        keep(given.keep, {"hostile.json": {"columns": COLUMNS, "right": [False, *[True] * 5], "rows": rows}})
    return 0 if good else 1


if __name__ == "__main__":
    os.nice(1)
    sys.exit(main())
