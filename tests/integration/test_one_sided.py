"""Sentences without a translation: read as context, never learned, never scored, in every family of models."""

from __future__ import annotations

import io
import json
import os
import queue
import threading
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import small_system
import torch
from parallel_text import ParallelText
from small_models import Numbers, build
from trainings import SMALL

from docnmt.apps.commands import translate as stream
from docnmt.apps.commands.translate import Arriving
from docnmt.apps.options import MemoryConfig, ModelsConfig, TranslateConfig
from docnmt.cli import generate, score
from docnmt.cli.train import main as train
from docnmt.core.batch import IGNORE, TranslationBatch, learned_units, planned_units
from docnmt.core.corpus import ParallelCorpus, TextArray
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.read_corpus import TextLines
from docnmt.core.scoring.metrics import evaluate
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig, SamplingConfig, SearchConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.split_sentences import of_sentences
from docnmt.core.tokenizer import BOS, BRK
from docnmt.core.training.criterions import CrossEntropy
from docnmt.core.translation_task import TranslationDataset
from docnmt.runtime.system import UserError

Capture = pytest.CaptureFixture[str]
DOCUMENTS = small_system.text(7, 5, seed=3)
SENTENCES = sum(map(len, DOCUMENTS))
#: Every third sentence, and all of the third document.
ALONE = sorted({*range(1, SENTENCES, 3), *range(sum(map(len, DOCUMENTS[:2])), sum(map(len, DOCUMENTS[:3])))})
APART: list[tuple[str, dict[str, Any]]] = [
    ("transformer", {}),
    ("concat_transformer", {}),
    ("hier_transformer", {}),
    ("cond_transformer", {}),
    ("hier_cond_transformer", {}),
]
CASES = [
    *APART,
    ("concat_transformer", {"target_window": 2}),
    ("doc_transformer", {}),
    ("scaleformer", {}),
    ("cond_transformer", {"target_context": "conditional"}),
    ("hier_cond_transformer", {"target_context": "summaries"}),
]


def corpus(*, filler: str | None = None, source: dict[int, str] | None = None) -> ParallelCorpus:
    """DOCUMENTS and their words backwards; sentences of ALONE have no translation, or `filler`."""
    flat = [line for document in DOCUMENTS for line in document]
    lines = iter([(source or {}).get(number, line) for number, line in enumerate(flat)])
    made = small_system.corpus([[next(lines) for _ in document] for document in DOCUMENTS])
    texts = [filler or "" if number in ALONE else " ".join(line.split()[::-1]) for number, line in enumerate(flat)]
    return replace(made, target=small_system.corpus([texts]).source, references=[TextArray.from_lines(texts)])


def everything(model: Any, data: ParallelCorpus) -> TranslationBatch:
    dataset = TranslationDataset(data, learned_units(planned_units(model.reading, data), data), model.reading, "train")
    return dataset.batch(np.arange(len(dataset.units)))


def losses(model: Any, data: ParallelCorpus, labels: torch.Tensor | None = None) -> torch.Tensor:
    """-log p of the labels, in their order."""
    text = everything(model, data)
    labels = text.labels if labels is None else labels
    log_p = model.output(model(text)).log_softmax(-1)
    counted = labels != IGNORE
    return -log_p[counted].gather(1, labels[counted, None])[:, 0]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_what_is_read_and_what_is_learned(name: str, options: dict[str, Any]) -> None:
    model, data = build(name, **options), corpus()
    text, units = everything(model, data), planned_units(model.reading, data)
    written = [range(a, b) for a, b in zip(units.first, units.last, strict=True)]
    learned = [n for unit, numbers in enumerate(written) if not set(numbers) <= set(ALONE) for n in numbers]
    assert data.target is not None
    expected = [token for n in learned if n not in ALONE for token in data.target[n].tolist()]
    labels = text.labels[text.labels != IGNORE]
    assert labels[~torch.isin(labels, torch.tensor([BRK, 2]))].tolist() == expected
    assert text.num_tokens == len(expected) + sum(n not in ALONE for n in learned)
    begins = torch.isin(text.target.tokens, torch.tensor([BOS, BRK])).nonzero()[:, 0]
    lengths = torch.diff(begins, append=torch.tensor([len(text.target.tokens)]))
    assert lengths.tolist() == [1 + len(data.target[n]) for n in learned]
    loss, size, _ = CrossEntropy(label_smoothing=0.0)(model.train(), text)
    loss.backward()
    assert size == text.num_tokens
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize(("name", "options"), APART)
def test_the_loss_is_that_of_the_other_sentences_whatever_the_translation_would_be(
    name: str, options: dict[str, Any]
) -> None:
    """Against labels that are taken out by hand, where target sentences do not see each other."""
    model = build(name, **options)
    full = corpus(filler="the old river")
    text = everything(model, full)
    units = planned_units(model.reading, full)
    sentence = np.concatenate([np.arange(a, b) for a, b in zip(units.first, units.last, strict=True)])
    of_token = sentence[text.target.layout.sentence_of_token.numpy()]
    labels = text.labels.masked_fill(torch.from_numpy(np.isin(of_token, ALONE)), IGNORE)
    torch.testing.assert_close(losses(model, corpus()), losses(model, full, labels))


@pytest.mark.parametrize(("name", "options"), CASES[-5::2])
def test_all_are_translated_and_the_others_scored(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data, task = build(name, **options), corpus(), small_system.task()
    monkeypatch.setattr(task, "target_tokenizer", Numbers())
    settings = GenerationConfig(max_tokens=8000), BeamSearchConfig(beam=1)
    texts = [result.text for result in translate_corpus([model], task, data, *settings)]
    assert len(texts) == SENTENCES
    kept = [n for n in range(SENTENCES) if n not in ALONE]
    offsets = np.searchsorted(kept, data.document_offsets)
    lines = ["" if n in ALONE else f"{text} {n}" for n, text in enumerate(texts)]  # near the translations
    reference, data = [[lines[n] for n in kept]], replace(data, references=[lines])
    monkeypatch.setattr(task, "config", DocumentTranslationConfig(eval_bleu_beam=1))
    monkeypatch.setattr(task, "corpus", lambda split: data)
    bleu = task.evaluate(model, "test", {"max_tokens": 8000})["bleu"]
    assert bleu > 10
    assert bleu == pytest.approx(evaluate([texts[n] for n in kept], reference, offsets).scores["s-BLEU"])


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    """A corpus in which every split has a few lines without a translation, and one without a source."""
    text = ParallelText(tmp_path)
    for split in ("train", "dev", "test"):
        lines = text.lines(f"{split}.de")
        for number in range(2, len(lines), 7):
            text.set_line(f"{split}.de", number, "")
        both = [n for n, pair in enumerate(zip(text.lines(f"{split}.en"), text.lines(f"{split}.de"), strict=True), 1)
                if all(pair)]  # fmt: skip
        text.set_line(f"{split}.en", both[4], "")
    return text


def test_generate_and_score_leave_them_out(text: ParallelText, tmp_path: Path, capsys: Capture) -> None:
    for number, pair in enumerate(zip(text.lines("test.en"), text.lines("test.de"), strict=True), 1):
        if pair[1] and not pair[0]:  # its line has no translation either
            text.set_line("test.en", number, "a lamp")
    assert text.preprocess("--one-sided", "read", "--vocab-size", "60") == 0
    run = tmp_path / "run"
    command = [str(text.data), "--arch", "cond_transformer", *SMALL.split(), "--save-dir", str(run)]
    assert train([*command, "--max-update", "1"]) == 0
    capsys.readouterr()
    results = tmp_path / "results"
    assert generate.main([str(text.data), "--path", str(run), "--results-path", str(results), "--max-len-b", "5"]) == 0
    out = capsys.readouterr().out
    corpus = text.corpus("test")
    alone = np.flatnonzero(~corpus.has_partner(np.arange(corpus.num_sentences)))
    assert len(alone) > 0
    for number in range(corpus.num_sentences):
        assert f"D-{number}\t" in out
        assert (f"T-{number}\t" in out) == (number not in alone)
    hypotheses = (results / "hypotheses.txt").read_text().split("\n")[:-1]
    assert len(hypotheses) == len(text.lines("test.en"))
    scores = json.loads((results / "scores.json").read_text())
    assert scores["unscored"] == len(alone)
    assert f"({len(alone)} sentences" in out
    assert scores["sentences"] == corpus.num_sentences - len(alone)
    files = ["--src", str(text.path("test.en")), "--ref", str(text.path("test.de"))]
    assert score.main([*files, "--sys", str(results / "hypotheses.txt"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    for name in ("s-BLEU", "d-BLEU", "chrF", "unscored"):
        assert again[name] == pytest.approx(scores[name])


# docnmt-translate answers while its input is open: each document when it is closed, and the same as all at once.


SEARCH = BeamSearchConfig(beam=2, max_len_a=1, max_len_b=2)
#: Longer than any answer takes; only a hang ends by it.
HANGS = 120


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_system.save(tmp_path_factory.mktemp("model") / "m.safetensors", "hier_cond_transformer_tiny")


def translate(
    model: Path, source: BinaryIO, out: io.TextIOBase, form: str = "corpus", search: SearchConfig = SEARCH
) -> None:
    generator = "sampling" if isinstance(search, SamplingConfig) else "beam_search"
    with redirect_stderr(io.StringIO()):
        stream.translate_stream(
            source, out, TranslateConfig(input_format=form), ModelsConfig(path=str(model), device="cpu"),  # type: ignore[arg-type]
            MemoryConfig(), GenerationConfig(generator=generator), search,
        )  # fmt: skip


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


@pytest.mark.parametrize("form", TEXTS)
def test_a_document_is_answered_while_the_input_is_open(model: Path, form: str) -> None:
    """Each is sent when the one before it was answered; the answers are those of all at once."""
    parts = TEXTS[form]
    whole = [at_once(model, "".join(parts[: n + 1]), form=form) for n in range(len(parts))]
    written = [list(filter(None, text.split("\n"))) for text in whole]
    ends = [len(answer) for answer in written[:2]]
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
    assert out.getvalue() == whole[-1]


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
    documents = small_system.text(6, 3, seed=4)
    text = "\n\n".join("\n".join(document) for document in documents) + "\n"
    whole = at_once(model, text, search=search)
    monkeypatch.setattr(Arriving, "_waits", lambda self: True)
    out = io.StringIO()
    translate(model, Slow([text[n : n + 9] for n in range(0, len(text), 9)]), out, search=search)
    assert out.getvalue() == whole
    assert len(whole.splitlines()) == len(text.splitlines())


def test_an_endless_input_takes_constant_memory() -> None:
    """Of a thousand documents never more are kept than are translated together."""
    kept: list[int] = []

    class Endless(io.BytesIO):
        left = 1000

        def read1(self, size: int | None = -1) -> bytes:
            self.left -= 1
            return b"the dog sees a cat.\n\n" if self.left else b""

    arriving = Arriving(Endless(), name="stdin", translate=lambda text: kept.append(text.size), most=500)
    for part in of_sentences(TextLines(arriving.blocks(), name="stdin")):
        arriving.add(part)
    arriving.flush()
    assert max(kept) < 550
    assert sum(kept) == 999 * (len("the dog sees a cat.") + 2)
    assert arriving.ended


def test_a_fault_names_its_line_and_what_is_closed_was_written(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arriving, "_waits", lambda self: True)
    out = io.StringIO()
    with pytest.raises(UserError, match=":3:"):
        translate(model, Slow(['{"src": ["a"]}\n{"src": ["b"]}\n', "{\n"]), out, "jsonl")
    assert [sorted(json.loads(line)) for line in out.getvalue().splitlines()] == [["hypothesis", "src"]] * 2
