"""Training documents that are left out on request, and what is said and written about it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from parallel_text import WORDS, ParallelText, translate
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

import docnmt
from docnmt.cli import preprocess
from docnmt.cli.preprocess import main as preprocess_main
from docnmt.cli.train import main as train
from docnmt.core.corpus import ParallelCorpus, read_meta, renumber
from docnmt.core.preprocess import _Limits, _Line, split_text
from docnmt.core.vocabularies import stored_tokenizers
from docnmt.runtime.system import UserError

Capture = pytest.CaptureFixture[str]
ENGLISH = ["The weather was very nice yesterday in the old town.", "Nobody knows why the train was late again."]
GERMAN = ["Das Wetter war gestern sehr schön in der Altstadt.", "Niemand weiß, warum der Zug wieder zu spät war."]
GOOD = [(f"{e} Number {n}.", f"{g} Nummer {n}.") for n, (e, g) in enumerate(zip(ENGLISH * 6, GERMAN * 6, strict=True))]
#: Name, sentences: which documents the filters should find.
TRAIN = [
    ("good 1", GOOD[:3]),
    ("test", [("A fine day.", "Ein Tag."), ("So it was.", "So war es."), ("New.", "Neu.")]),
    ("twice", [(f"  {e}", f"{g} ") for e, g in GOOD[:3]]),
    ("good 2", GOOD[3:9]),
    ("alone", [(GERMAN[0] * 2, ""), *GOOD[9:12]]),
]
TEST = [("t", [("A fine day.", "Ein Tag."), ("So it was.", "So war es.")])]
ALL = ["--drop-duplicates", "--drop-overlap"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """TRAIN and TEST as tables."""
    for split, documents in (("train", TRAIN), ("test", TEST)):
        rows = [{"doc": name, "src": e, "tgt": g} for name, document in documents for e, g in document]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(folder: Path, *options: str, out: str = "data") -> int:
    files = [f"--trainpref={folder / 'train.jsonl'}", f"--testpref={folder / 'test.jsonl'}"]
    return preprocess.main(["-s", "en", "-t", "de", *files, f"--destdir={folder / out}", "--overwrite", *options])


@pytest.mark.parametrize(
    ("options", "lost"),
    [([], []), (["--drop-duplicates"], ["twice"]), (["--drop-overlap"], ["test"]), (ALL, ["test", "twice"])],
)
def test_each_filter_finds_its_own(folder: Path, capsys: Capture, options: list[str], lost: list[str]) -> None:
    assert run(folder, *options) == 0
    corpus = ParallelCorpus.open(folder / "data", "train")
    kept = [0, *itertools.accumulate(len(document) for name, document in TRAIN if name not in lost)]
    assert corpus.document_offsets.tolist() == kept
    assert list(corpus.source_text) == [e for name, document in TRAIN for e, _ in document if name not in lost]
    report, listed = capsys.readouterr().err, folder / "data" / "dropped.tsv"
    assert listed.exists() == bool(options)
    if options:
        rows = [line.split("\t") for line in listed.read_text().splitlines()]
        assert rows[0] == ["document", "place", "name", "sentences", "reason"]
        numbers = [number for number, (name, _) in enumerate(TRAIN, 1) if name in lost]
        assert [(int(row[0]), row[2], int(row[3])) for row in rows[1:]] == [
            (number, TRAIN[number - 1][0], len(TRAIN[number - 1][1])) for number in numbers
        ]
        line = 1 + sum(len(document) for _, document in TRAIN[: numbers[0] - 1])
        assert rows[1][1] == f"{folder / 'train.jsonl'}:{line}"
        assert f"train: {len(lost)} of {len(TRAIN)} documents" in report
        reasons = {"twice": "document 1", "test": "test data"}
        assert all(row[4].endswith(reasons[name]) for row, name in zip(rows[1:], lost, strict=True))
        assert ("1 duplicates" in report) == ("twice" in lost)
        assert any(
            f"of {len(TRAIN)} documents" in note for note in read_meta(folder / "data")["splits"]["train"]["notes"]
        )


def test_what_is_left_is_the_same_data_as_without_the_others(folder: Path) -> None:
    assert run(folder, "--drop-duplicates", "--vocab-size", "65") == 0
    rows = (folder / "train.jsonl").read_text().splitlines(keepends=True)
    (folder / "train.jsonl").write_text("".join(row for row in rows if '"twice"' not in row))
    assert run(folder, "--vocab-size", "65", out="again") == 0
    first, second = (read_meta(folder / name) for name in ("data", "again"))
    assert first["splits"]["train"]["lengths"] == second["splits"]["train"]["lengths"]
    for name in second["files"]:
        if name != "train.structure.bin":  # has the empty lines that stood around the document
            assert first["files"][name] == second["files"][name], name


def test_messages_name_the_line_of_the_input(folder: Path, capsys: Capture) -> None:
    rows = (folder / "train.jsonl").read_text().splitlines(keepends=True)
    rows[-1] = json.dumps({"doc": "alone", "src": "x " * 900, "tgt": "y"}) + "\n"
    (folder / "train.jsonl").write_text("".join(rows))
    assert run(folder, "--drop-duplicates", "--max-sentence-tokens", "800") == 1
    assert f"train.jsonl:{len(rows)}: " in capsys.readouterr().err


# Sentences and documents above the limits: declared, on both sides alike, never silent, never in a test set.


LIMIT = 60
LONG = " ".join(WORDS[:20] * 6)


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    """Line 1 of dev and of test and line 6 of train are far too long."""
    text = ParallelText(tmp_path)
    for split, line in (("train", 6), ("dev", 1), ("test", 1)):
        assert text.lines(f"{split}.en")[line - 1]
        text.set_line(f"{split}.en", line, LONG)
        text.set_line(f"{split}.de", line, translate(LONG))
    return text


def run_of_long(text: ParallelText, policy: str, *more: str) -> int:
    return text.preprocess("--long-policy", policy, "--max-sentence-tokens", str(LIMIT), *more)


def longest(corpus: ParallelCorpus) -> int:
    assert corpus.target is not None
    return int(max(corpus.source.lengths().max(), corpus.target.lengths().max()))


def sides_agree(corpus: ParallelCorpus) -> bool:
    """Both sides and the structure have equally many sentences, and the raw text still goes together."""
    assert corpus.target is not None
    assert len(corpus.source) == len(corpus.target) == corpus.num_sentences == corpus.document_offsets[-1]
    assert len(corpus.levels) == corpus.num_sentences
    return list(corpus.references[0]) == [translate(line) for line in corpus.source_text]


def test_error_names_the_first_line_and_what_to_do(text: ParallelText, capsys: Capture) -> None:
    assert run_of_long(text, "error") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"{text.path('train.en')}:6: " in error
    assert "--max-sentence-tokens" in error
    assert not text.data.exists()


@pytest.mark.parametrize("policy", ["split", "truncate", "skip"])
def test_long_sentences_of_training_fit_and_test_sets_stay_whole(
    text: ParallelText, capsys: Capture, policy: str
) -> None:
    assert run_of_long(text, policy) == 0
    corpus, lines = text.corpus("train"), [line for line in text.lines("train.en") if line]
    assert longest(corpus) <= LIMIT
    where = lines.index(LONG)
    if policy == "split":  # into equally many pieces on both sides
        pieces = corpus.num_sentences - len(lines) + 1
        assert pieces > 1
        for side, whole in ((corpus.source_text, LONG), (corpus.references[0], translate(LONG))):
            assert " ".join(side[where : where + pieces]) == whole
        assert list(corpus.source_text[where + pieces :]) == lines[where + 1 :]
        assert corpus.target is not None
        assert len(corpus.target) == len(corpus.references[0]) == corpus.num_sentences == corpus.document_offsets[-1]
    else:  # the raw text is not cut
        assert sides_agree(corpus)
        assert list(corpus.source_text) == (lines if policy == "truncate" else lines[:where] + lines[where + 1 :])
        assert longest(corpus) == LIMIT or policy == "skip"
    test = text.corpus("test")
    assert list(test.source_text) == [line for line in text.lines("test.en") if line]
    assert longest(test) > LIMIT
    assert f" {text.path('test.en')}:1" in capsys.readouterr().err


class Characters:
    """A tokenizer whose subwords are the characters; `read` is how many it has been given."""

    read = 0

    def encode(self, texts: list[str]) -> list[list[int]]:
        self.read += sum(map(len, texts))
        return [[ord(character) for character in text if character.strip()] for text in texts]


@pytest.mark.parametrize(
    ("words", "limit", "most"),
    [(["ab"] * 1000, 100, 20), (["a"] * 900 + ["b" * 9] * 100, 30, 360), (["a"] * 1000 + ["b" * 31], 30, 0)],
    ids=["even", "uneven", "in_vain"],
)
def test_long_lines_are_split_in_few_passes(words: list[str], limit: int, most: int) -> None:
    texts, tokenizer = [" ".join(words), "  ".join(words)], Characters()
    split: Any = SimpleNamespace(sides=["en", "de"], place=lambda number: f"train.en:{number}")
    config: Any = SimpleNamespace(long_policy="split", max_sentence_tokens=limit, max_document_tokens=None)
    tokenizers: Any = {"en": tokenizer, "de": tokenizer}
    line = _Line(texts, [np.array(tokens) for tokens in tokenizer.encode(texts)], np.zeros(0))
    limits = _Limits(split, tokenizers, config)
    if most:
        (pieces,) = limits.fitted([line], 7)
        assert len(pieces) <= most
        assert max(piece.cost for piece in pieces) <= limit
        assert [space.join(piece.texts[side] for piece in pieces) for side, space in enumerate((" ", "  "))] == texts
    else:
        with pytest.raises(UserError, match=r"train\.en:7"):
            limits.fitted([line], 7)
    assert tokenizer.read < 20 * sum(map(len, texts))


def test_raw_text_is_cut_between_words_only() -> None:
    assert split_text(" a\u00a0b\tc  d e ", 2) == [" a\u00a0b", "c  d e "]
    assert split_text("a \tb", 2) == ["a", "b"]
    assert split_text("", 3) == ["", "", ""]


def test_documents_are_split_at_sentence_ends(text: ParallelText) -> None:
    rows = ["" if not line else f"{i // 3}\t{i // 2}" for i, line in enumerate(text.lines("train.en"))]
    text.path("train.levels.tsv").write_text("".join(f"{row}\n" for row in rows))
    assert text.preprocess("--long-policy", "split") == 0
    whole = text.corpus("train")
    limit = longest(whole)
    assert text.preprocess("--long-policy", "split", "--max-document-tokens", str(limit), "--overwrite") == 0
    corpus = text.corpus("train")
    assert list(corpus.source_text) == list(whole.source_text)
    assert set(whole.document_offsets) < set(corpus.document_offsets)
    assert corpus.target is not None
    costs = np.maximum(corpus.source.lengths(), corpus.target.lengths())
    assert np.add.reduceat(costs, corpus.document_offsets[:-1]).max() <= limit
    assert corpus.blank_lines.sum() == whole.blank_lines.sum()
    np.testing.assert_array_equal(corpus.levels, renumber(whole.levels, corpus.document_offsets))


@pytest.mark.parametrize("policy", ["skip", "truncate"])
def test_documents_are_left_out_or_cut_off(text: ParallelText, policy: str) -> None:
    assert text.preprocess() == 0
    whole = text.corpus("train")
    assert whole.target is not None
    costs = np.maximum(whole.source.lengths(), whole.target.lengths())
    bounds = list(zip(whole.document_offsets[:-1], whole.document_offsets[1:], strict=True))
    expected = []
    for first, last in bounds:
        kept = first
        while kept < last and costs[first : kept + 1].sum() <= LIMIT:
            kept += 1
        if policy == "truncate":
            expected.append(whole.source_text[first : max(kept, first + 1)])
        elif kept == last:
            expected.append(whole.source_text[first:last])
    assert text.preprocess("--long-policy", policy, "--max-document-tokens", str(LIMIT), "--overwrite") == 0
    corpus = text.corpus("train")
    assert sides_agree(corpus)
    offsets = corpus.document_offsets.tolist()
    assert [corpus.source_text[a:b] for a, b in itertools.pairwise(offsets)] == expected


# sacremoses: punctuation made uniform wherever text is cut, and corpora that Moses' tokenizer cut into words.


CURLY = {"en": "He said : “It’s so”, and went …", "de": "Er sagte: „So ist es“, und ging …"}


def corpus(folder: Path) -> list[str]:
    """Text files with curly marks; what docnmt-preprocess is told of them."""
    draw = np.random.default_rng(1)
    for language, words in (("en", ["lamp", "cup", "so", "it’s"]), ("de", ["Lampe", "Tasse", "so", "„es“"])):
        lines = [" ".join(draw.choice(words, 5)) for _ in range(40)] + [CURLY[language]] * 3
        for split in ("train", "valid"):
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["-s", "en", "-t", "de", f"--trainpref={folder / 'train'}", f"--validpref={folder / 'valid'}"]


def test_punctuation_is_uniform_wherever_text_is_cut(tmp_path: Path) -> None:
    words, data, run = corpus(tmp_path), tmp_path / "data", tmp_path / "run"
    assert preprocess_main([*words, "--destdir", str(data), "--normalize-punctuation"]) == 0
    assert preprocess_main([*words, "--destdir", str(tmp_path / "again"), "--srcdict", str(data)]) == 0
    assert read_meta(tmp_path / "again")["fingerprint"] == read_meta(data)["fingerprint"]
    sides = dict(zip(("en", "de"), stored_tokenizers(data, "en", "de"), strict=True))
    assert not any(mark in piece for side in sides.values() for piece in side.vocabulary() for mark in "“”„’")
    stored = ParallelCorpus.open(data, "train")
    assert stored.source_text[42] == CURLY["en"]  # the text itself stays
    bare = {name: side.prepared(type(side.preparation)()) for name, side in sides.items()}
    for name, tokens in (("en", stored.source), ("de", stored.target)):
        assert tokens is not None
        plain = MosesPunctNormalizer(lang=name).normalize(CURLY[name])
        assert plain != CURLY[name]
        assert tokens[42].tolist() == bare[name].encode([plain])[0] == sides[name].encode([CURLY[name]])[0]
        assert bare[name].encode([CURLY[name]])[0] != tokens[42].tolist()
    small = ["--embed-dim", "16", "--heads", "2", "--ffn-dim", "24", "--max-update", "1", "--max-tokens", "300"]
    assert train([str(data), "--arch", "transformer_tiny", "--save-dir", str(run), *small]) == 0
    loaded = docnmt.load(run)
    plain = {name: MosesPunctNormalizer(lang=name).normalize(text) for name, text in CURLY.items()}
    one, other = (loaded.translate([text["en"]], beam=2)[0] for text in (CURLY, plain))
    assert (one.text, one.score) == (other.text, other.score)
    assert loaded.score([CURLY["en"]], [CURLY["de"]]) == loaded.score([plain["en"]], [plain["de"]])


def test_corpora_of_words_become_text_again(tmp_path: Path) -> None:
    texts: dict[str, Any] = {
        "en": ["It's a lamp, isn't it?", 'He said: "Yes & no".', "A cup costs $5.20 (or less)."],
        "de": ["Es ist eine Lampe, oder?", 'Er sagte: "Ja & nein".', "Eine Tasse kostet 5,20 (oder weniger)."],
    }
    for language, lines in texts.items():
        cut = MosesTokenizer(lang=language)
        lines = [cut.tokenize(line, return_str=True) for line in lines]
        assert any("&" in line for line in lines)  # escapes
        (tmp_path / f"train.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["-s", "en", "-t", "de", f"--trainpref={tmp_path / 'train'}", "--destdir", str(tmp_path / "data")]
    assert preprocess_main([*words, "--detokenize", "moses"]) == 0
    stored = ParallelCorpus.open(tmp_path / "data", "train")
    for language, written in (("en", stored.source_text), ("de", stored.references[0])):
        expected = [MosesDetokenizer(lang=language).detokenize(line.split())
                    for line in (tmp_path / f"train.{language}").read_text(encoding="utf-8").splitlines()]  # fmt: skip
        assert list(written) == expected
    assert list(stored.references[0]) == texts["de"]
