"""docnmt-translate answers while its input is open: each document when it is closed, and the same as all at once."""

from __future__ import annotations

import io
import json
import os
import queue
import threading
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import BinaryIO

import pytest
import small_system

from docnmt.apps.commands import translate as stream
from docnmt.apps.commands.translate import Arriving, Gathered
from docnmt.apps.options import MemoryConfig, ModelsConfig, TranslateConfig
from docnmt.core.corpus import Document
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, SamplingConfig, SearchConfig
from docnmt.core.split_sentences import RunningText
from docnmt.runtime.system import UserError

SEARCH = BeamSearchConfig(beam=2, max_len_a=1, max_len_b=2)
#: Longer than any answer takes; only a hang ends by it.
HANGS = 120


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_system.save(tmp_path_factory.mktemp("model") / "m.safetensors", "hier_cond_transformer_tiny")


def translate(
    model: Path, source: BinaryIO, out: io.TextIOBase, form: str = "corpus", search: SearchConfig = SEARCH,
    generator: str = "beam_search",
) -> str:  # fmt: skip
    """What is said on stderr."""
    with redirect_stderr(io.StringIO()) as said:
        stream.translate_stream(
            source, out, TranslateConfig(input_format=form), ModelsConfig(path=str(model), device="cpu"),  # type: ignore[arg-type]
            MemoryConfig(), GenerationConfig(generator=generator), search,
        )  # fmt: skip
    return said.getvalue()


def at_once(model: Path, text: str, **options: object) -> str:
    out = io.StringIO()
    translate(model, io.BytesIO(text.encode()), out, **options)  # type: ignore[arg-type]
    return out.getvalue()


class Answers(io.StringIO):
    """Output of which another thread takes the lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: queue.Queue[str] = queue.Queue()

    def write(self, text: str) -> int:
        if text.strip():
            self.lines.put(text)
        return super().write(text)


TEXTS = {
    "corpus": ["the dog.\na cat sees.\n\n", "the house.\n\n", "he walks.\n"],
    "lines": ["the dog. A cat sees.\n", "the house.\n", "he walks.\n"],
    "jsonl": ['{"src": ["the dog.", "A cat sees."]}\n', '{"src": ["the house."]}\n', '{"src": ["he walks."]}\n'],
    "tsv": ["doc\tsrc\n1\tthe dog.\n1\tA cat sees.\n\n", "2\tthe house.\n\n", "3\the walks.\n"],
}


def filled(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


@pytest.mark.parametrize("form", TEXTS)
def test_a_document_is_answered_while_the_input_is_open(model: Path, form: str) -> None:
    """Each is sent when the one before it was answered; the answers are those of all at once."""
    parts = TEXTS[form]
    written = [filled(at_once(model, "".join(parts[: n + 1]), form=form)) for n in range(len(parts))]
    ends = [len(each) for each in written[:2]]
    lines = written[-1]
    source, target = os.pipe()
    out, failed = Answers(), []

    def work() -> None:
        try:
            with open(source, "rb") as reader:
                translate(model, reader, out, form)
        except BaseException as error:
            failed.append(error)
            out.lines.put(repr(error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    with open(target, "wb", buffering=0) as writer:
        for part, begin, end in zip(parts, [0, *ends], [*ends, 0], strict=True):
            writer.write(part.encode())
            for line in lines[begin:end]:
                assert out.lines.get(timeout=HANGS) == line
    thread.join(timeout=HANGS)
    assert not failed
    assert out.getvalue() == at_once(model, "".join(parts), form=form)


class Slow(io.BytesIO):
    """A stream of which nothing more has come after each block, as `Arriving` finds out without a system's stream."""

    def __init__(self, blocks: Sequence[str]) -> None:
        super().__init__()
        self._blocks = iter(blocks)

    def read1(self, size: int | None = -1) -> bytes:
        return next(self._blocks, "").encode()


@pytest.mark.parametrize("search", [SEARCH, SamplingConfig(seed=3, max_len_a=1, max_len_b=2)], ids=["beam", "samples"])
def test_parts_give_what_the_whole_gives(model: Path, search: SearchConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte by byte or at once, beams and samples: nothing depends on what came together."""
    generator = "sampling" if isinstance(search, SamplingConfig) else "beam_search"
    documents = small_system.text(6, 3, seed=4)
    text = "\n\n".join("\n".join(document) for document in documents) + "\n"
    whole = at_once(model, text, search=search, generator=generator)
    monkeypatch.setattr(Arriving, "_waits", lambda self: True)
    out = io.StringIO()
    translate(model, Slow([text[n : n + 9] for n in range(0, len(text), 9)]), out, search=search, generator=generator)
    assert out.getvalue() == whole
    assert len(whole.splitlines()) == len(text.splitlines())


def test_what_is_there_is_translated_together() -> None:
    """All of it while more comes at once, and no more than so much."""
    found: list[int] = []
    gathered = Gathered(lambda text: found.append(len(text.documents)), most=100)

    def part(characters: int) -> RunningText:
        return RunningText([Document(("x" * characters,))], [[1]], [str])

    for _ in range(7):
        gathered.add(part(30))  # and a row
    gathered.idle()
    gathered.idle()
    gathered.add(part(1000))
    gathered.flush()
    assert found == [4, 3, 1]
    last = Gathered(lambda text: found.append(-len(text.documents)), most=None)
    for _ in range(5):
        last.add(part(1000))
        last.idle()
    assert found == [4, 3, 1]
    last.flush()
    assert found[-1] == -5


def test_an_endless_input_takes_constant_memory() -> None:
    """Of a thousand documents never more are kept than are translated together."""
    kept: list[int] = []
    gathered = Gathered(lambda text: kept.append(text.size), most=500)

    class Endless(io.BytesIO):
        left = 1000

        def read1(self, size: int | None = -1) -> bytes:
            self.left -= 1
            return b"the dog sees a cat.\n\n" if self.left else b""

    arriving = Arriving(Endless(), name="stdin", idle=gathered.idle)
    from docnmt.core.read_corpus import TextLines
    from docnmt.core.split_sentences import of_sentences

    for each in of_sentences(TextLines(arriving.blocks(), name="stdin")):
        gathered.add(each)
    gathered.flush()
    assert max(kept) < 550
    assert sum(kept) == 999 * (len("the dog sees a cat.") + 2)
    assert arriving.ended


def test_unknown_text_is_said_once_and_counted_at_the_end(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arriving, "_waits", lambda self: True)
    said = translate(model, Slow(["§\n\n", "the dog.\n\n", "§ §\n"]), io.StringIO())
    warnings = [line for line in said.splitlines() if line.startswith("warning: ")]
    assert [line.split(" subwords, ")[1].split(" sentences")[0] for line in warnings] == ["in 1 of 1", "in 2 of 3"]


def test_a_closed_reader_is_no_fault_of_stdin(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the output raises while the input is read passes as it is."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(Arriving, "_waits", lambda self: True)
    with pytest.raises(BrokenPipeError):
        translate(model, Slow(["the dog.\n\n", "a cat.\n"]), Closed())


def test_a_fault_names_its_line_and_what_is_closed_was_written(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arriving, "_waits", lambda self: True)
    out = io.StringIO()
    with pytest.raises(UserError, match=":3:"):
        translate(model, Slow(['{"src": ["a"]}\n{"src": ["b"]}\n', "{\n"]), out, "jsonl")
    assert [sorted(json.loads(line)) for line in out.getvalue().splitlines()] == [["hypothesis", "src"]] * 2
