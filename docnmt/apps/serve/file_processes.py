"""Strangers' documents are read and written in processes of their own, which can be killed and have bounded memory.

A fault in a reader of documents (time without end, memory without end, a crash) then costs the request that met it.
A process reads one document at a time and asks for the translations of its sentences: `FileTask` → `Question` →
`Answer` → … → `Written`. It keeps the document meanwhile, unless another one needs it; then the first is read
again, with the answers that are known. No torch is imported there.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from typing import Literal, NamedTuple

import msgspec

from docnmt.apps.documents.fragments import Fragments, HtmlFragment, XmlFragment
from docnmt.apps.documents.kinds import KINDS, read
from docnmt.apps.documents.projection import Span
from docnmt.apps.documents.segments import Allowance, DocumentFile, TooLong, TooMuch, allowed, expect
from docnmt.apps.documents.sentences import SegmentSentence, Split, changing_text, translated
from docnmt.apps.documents.text import PlainText
from docnmt.core.split_sentences import splitter, whole_lines
from docnmt.runtime.progress import lasting
from docnmt.runtime.system import UserError

#: A process that has so many bytes in memory ends after its document, so that idle ones stay small.
LARGE = 400_000_000
#: Seconds between two looks at whether somebody still waits for a document.
LOOK = 0.5


class FileSource(msgspec.Struct, tag=True):
    """A file, as `documents.read` takes it; `plugin` is the module that registers its kind, if that is not built in."""

    content: bytes
    kind: str
    name: str
    plugin: str = ""


class Tags(NamedTuple):
    """How tags in texts are read: the markup language, elements that stay, and (XML) those that end a sentence."""

    kind: Literal["xml", "html"]
    kept: tuple[str, ...] = ()
    parting: tuple[str, ...] = ()


class FragmentsSource(msgspec.Struct, tag=True):
    """Texts with tags, which are one document; those that are not `wanted` are context, and read without tags."""

    texts: list[str]
    wanted: list[bool]
    tags: Tags
    lines: bool  # whether line breaks end sentences
    name: str


class FileTask(msgspec.Struct, tag=True):
    """A document to read, and the answers to what its translation has asked so far."""

    source: FileSource | FragmentsSource
    languages: tuple[str, str]
    rules: str  # `--splitter`; "": lines are not split
    subwords: int  # at most; each text and sentence has a word and its end
    characters: int  # at most
    protect: bool
    answers: list[Answer] = []


class Question(msgspec.Struct, tag=True):
    """A process asks for translations of sentences, or for alignments of sentences with theirs.

    `texts`: the first time, the text of each segment that may be lost.
    """

    sentences: list[SegmentSentence] = []
    pairs: list[tuple[str, str]] = []
    texts: list[str] = []


class Answer(msgspec.Struct, tag=True):
    """The translation of each sentence without a given one; or for each pair where aligned subwords begin."""

    texts: list[str] = []
    spans: list[list[Span]] = []


class Written(msgspec.Struct, tag=True):
    """The translated document, and the places in it that stay as they are."""

    content: bytes
    left: list[int | str]


class Failed(msgspec.Struct, tag=True):
    """The document cannot be translated."""

    status: int
    code: str
    message: str


Reply = Question | Written | Failed
_TASKS = msgspec.msgpack.Decoder(FileTask | Answer)
_REPLIES = msgspec.msgpack.Decoder(Reply)


class Unread(Exception):
    """A document was not read or written: `late`, `slow`, `gone`, or its process has `died`."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


@dataclass(eq=False)
class FileRequest:
    """A request of a client whose document is read until a deadline, and the process that works for it now."""

    client: str | None
    deadline: float
    gone: bool = False
    process: _Process | None = None


class _Process:
    """A process that reads documents; it `holds` the one of this request while its sentences are translated."""

    def __init__(self, memory: int, seconds: float) -> None:
        self._connection, theirs = Pipe()
        words = [sys.executable, "-m", __name__, str(theirs.fileno()), str(memory), str(seconds)]
        self.child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # a terminal's Ctrl-C is the service's
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), "PYTHONSAFEPATH": "1"},
        )
        theirs.close()
        self.holds: FileRequest | None = None

    def exchange(self, message: FileTask | Answer, until: float) -> Reply:
        """Send a message; return the reply."""
        self._connection.send_bytes(msgspec.msgpack.encode(message))
        if not self._connection.poll(max(until - time.monotonic(), 0)):
            raise TimeoutError
        return _REPLIES.decode(self._connection.recv_bytes())

    def end(self) -> None:
        """End it at once, and forget it."""
        self.child.kill()
        self.child.wait()
        self._connection.close()


class FileProcesses:
    """The processes that read documents, at most `count`; they are started when they are needed.

    Args:
        memory: bytes of address space of each. seconds: for reading or writing a document, between two questions.
    """

    def __init__(self, count: int, *, memory: int, seconds: float) -> None:
        self._count, self._memory, self._seconds = count, memory, seconds
        self._changed = threading.Condition()
        self._idle: list[_Process] = []
        self._busy: dict[_Process, FileRequest] = {}
        self._closed = False

    def warm(self) -> None:
        """Start a process if none is idle, so that the next document need not wait for it."""
        with self._changed:
            if not self._closed and not self._idle and len(self._busy) < self._count:
                self._idle.append(_Process(self._memory, self._seconds))

    def close(self) -> None:
        """Kill all processes, and start no others."""
        with self._changed:
            self._closed = True
            for process in (*self._idle, *self._busy):
                process.child.kill()
            self._changed.notify_all()

    def leave(self, request: FileRequest) -> None:
        """Give up a request's document; its process is killed if it is at work."""
        with self._changed:
            request.gone = True
            if request.process is not None:
                request.process.child.kill()
            self._changed.notify_all()

    def ask(self, task: FileTask, answers: Sequence[Answer], request: FileRequest) -> Reply:
        """Send the last answer to the process that keeps the document, or the document and all answers to another."""
        process = self._taken(request)
        begun, well = time.monotonic(), False
        try:
            going_on = process.holds is request
            message = answers[-1] if going_on else msgspec.structs.replace(task, answers=list(answers))
            reply = process.exchange(message, min(begun + self._seconds, request.deadline))
            process.holds = request if isinstance(reply, Question) else None
            well = True
            return reply
        except TimeoutError:
            raise Unread("late" if time.monotonic() >= request.deadline else "slow") from None
        except (EOFError, OSError, msgspec.DecodeError):
            slow = time.monotonic() >= begun + self._seconds  # its own alarm was faster
            raise Unread("gone" if request.gone else "slow" if slow else "died") from None
        finally:
            with self._changed:
                request.process = None
                del self._busy[process]
                if well and not self._closed:
                    self._idle.append(process)
                self._changed.notify_all()
            if not well or self._closed:
                process.end()
                self.warm()

    def _taken(self, request: FileRequest) -> _Process:
        """Wait for a process: the one that keeps the document, else an idle one, else a new one."""
        with self._changed:
            while True:
                if request.gone or self._closed:
                    raise Unread("gone")
                if time.monotonic() >= request.deadline:
                    raise Unread("late")
                mine = sum(busy.client == request.client for busy in self._busy.values())
                allowed = request.client is None or mine < max(1, self._count - 1)
                if allowed and (process := self._free(request)) is not None:
                    break
                self._changed.wait(min(LOOK, max(request.deadline - time.monotonic(), 0)))
            self._busy[process] = request
            request.process = process
            return process

    def _free(self, request: FileRequest) -> _Process | None:
        for dead in [process for process in self._idle if process.child.poll() is not None]:
            self._idle.remove(dead)
            dead.end()
        idle = sorted(self._idle, key=lambda process: (process.holds is not request, process.holds is not None))
        if idle and (idle[0].holds in (request, None) or len(self._idle) + len(self._busy) >= self._count):
            self._idle.remove(idle[0])
            return idle[0]
        if len(self._idle) + len(self._busy) < self._count:
            return _Process(self._memory, self._seconds)
        return None


# The other side: what runs in such a process.


class _Other(Exception):
    """Instead of an answer another document has come, its argument."""


@dataclass
class _Asking:
    """A model for a document in a process: its answers come from the service."""

    connection: Connection
    task: FileTask
    document: DocumentFile
    questions: int = field(default=0, init=False)

    def __call__(self, sentences: Sequence[SegmentSentence]) -> Iterator[str]:
        """Yield the translation of each sentence without a given one."""
        texts = [] if self.questions else [text for text in map(changing_text, self.document.segments) if text]
        yield from self._answer(Question(sentences=list(sentences), texts=texts)).texts

    def align(self, pairs: Sequence[tuple[str, str]]) -> list[list[Span]]:
        """Return the alignments of pairs of sentences."""
        return self._answer(Question(pairs=list(pairs))).spans if pairs else []

    def _answer(self, question: Question) -> Answer:
        if self.questions == len(self.task.answers):
            self.connection.send_bytes(msgspec.msgpack.encode(question))
            signal.setitimer(signal.ITIMER_REAL, 0)
            message = _received(self.connection)
            if isinstance(message, FileTask):
                raise _Other(message)
            self.task.answers.append(message)
        self.questions += 1
        return self.task.answers[self.questions - 1]


_seconds = 0.0


def _received(connection: Connection) -> FileTask | Answer:
    """Return the next message, and set the alarm that ends this process if its work takes too long."""
    message: FileTask | Answer = _TASKS.decode(connection.recv_bytes())
    signal.setitimer(signal.ITIMER_REAL, _seconds)
    return message


def _opened(task: FileTask) -> DocumentFile:
    source, target = task.languages
    if isinstance(task.source, FileSource):
        file = task.source
        if file.kind not in KINDS:
            importlib.import_module(file.plugin)
        return read(file.content, file.kind, name=file.name, source_lang=source, target_lang=target)
    parts: list[DocumentFile] = []
    kind, kept, parting = task.source.tags
    for number, (text, wanted) in enumerate(zip(task.source.texts, task.source.wanted, strict=True), 1):
        name = f"{task.source.name} {number}"
        if not wanted:
            parts.append(PlainText(text.encode(), name=name, languages=("", "")))
        elif kind == "html":
            parts.append(HtmlFragment(text, name=name, kept=kept))
        else:
            parts.append(XmlFragment(text, name=name, parting=parting, kept=kept, lines=task.source.lines))
    return Fragments(parts or [PlainText(b"", name=task.source.name, languages=("", ""))])


def _reply(connection: Connection, task: FileTask) -> Written | Failed:
    """Translate a document, whose translations the service gives."""
    allowance = Allowance(max(task.subwords // 2, 1), task.subwords, task.characters)  # a text has a word and its end
    try:
        with allowed(allowance):
            document = _opened(task)
            words = sum(len(segment.text.split()) for segment in document.segments)
            expect(len(document.segments), words, sum(len(segment.text) for segment in document.segments))
        rules = [splitter(task.rules, language) if task.rules else whole_lines() for language in task.languages]
        model = _Asking(connection, task, document)
        with allowed(allowance):
            texts = translated(
                document,
                model,
                split=_counting(rules[0]),
                split_target=rules[1],
                align=model.align,
                protect=task.protect,
            )
        return Written(document.write(texts), [*document.left, *document.notes])
    except TooMuch as error:
        return Failed(413, "too_long", f"the file has {error} (--max-request-tokens, --max-body): send it in parts")
    except TooLong as error:  # a text with tags
        return Failed(413, "too_long", f"a text has more than {error}: divide it")
    except UserError as error:
        return Failed(400, "invalid_file", str(error))


def _counting(split: Split) -> Split:
    """Count all sentences that a rule gives: each is a text for the model."""
    count = 0

    def counting(line: str) -> list[str]:
        nonlocal count
        sentences = split(line)
        count += len(sentences)
        expect(texts=count)
        return sentences

    return counting


def main() -> None:
    """Read documents until the service closes the connection, or this process has become large."""
    global _seconds
    number, memory, _seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    connection = Connection(number)
    if sys.stderr is not None:
        sys.stderr = lasting(sys.stderr, waits=False)  # a warning that cannot be written ends no document
    for limit, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError, OSError):  # not every system has it
            resource.setrlimit(limit, (most, most))
    with contextlib.suppress(OSError):
        os.nice(5)  # the service and its search come first
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("500")  # and where memory is short, this process goes before them
    for package in ("lxml.etree", "markdown_it"):  # so that the first document is read as fast as the others
        with contextlib.suppress(ImportError):
            importlib.import_module(package)
    following: FileTask | None = None
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            try:
                task, following = following or _received(connection), None
                if isinstance(task, Answer):  # to a document that was given up
                    continue
                reply: Reply = _reply(connection, task)
            except _Other as other:
                (following,) = other.args
                continue
            except MemoryError:
                allowed = f"{memory // 1_000_000:,} MB (--file-memory)"
                reply = Failed(413, "too_large", f"reading the file takes more memory than {allowed}: send it in parts")
            connection.send_bytes(msgspec.msgpack.encode(reply))
            signal.setitimer(signal.ITIMER_REAL, 0)
            with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as numbers:
                if int(numbers.read().split()[1]) * resource.getpagesize() > LARGE:
                    return


if __name__ == "__main__":
    main()
