"""sacremoses: punctuation made uniform wherever text is cut, and corpora that Moses' tokenizer cut into words."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

import docnmt
from docnmt.cli.preprocess import main as preprocess
from docnmt.cli.score import main as score
from docnmt.cli.train import main as train
from docnmt.cli.translate import main as translate
from docnmt.core.corpus import ParallelCorpus, read_meta
from docnmt.core.tokenizer import Tokenizer
from docnmt.core.vocabularies import stored_tokenizers

CURLY = {"en": "He said : “It’s so”, and went …", "de": "Er sagte: „So ist es“, und ging …"}


def corpus(folder: Path) -> list[str]:
    """Text files with curly marks; what docnmt-preprocess is told of them."""
    draw = np.random.default_rng(1)
    for language, words in (("en", ["lamp", "cup", "so", "it’s"]), ("de", ["Lampe", "Tasse", "so", "„es“"])):
        lines = [" ".join(draw.choice(words, 5)) for _ in range(40)] + [CURLY[language]] * 3
        for split in ("train", "valid"):
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["-s", "en", "-t", "de", f"--trainpref={folder / 'train'}", f"--validpref={folder / 'valid'}"]


def test_punctuation_is_uniform_wherever_text_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, data, run = corpus(tmp_path), tmp_path / "data", tmp_path / "run"
    assert preprocess([*words, "--destdir", str(data), "--normalize-punctuation"]) == 0
    assert preprocess([*words, "--destdir", str(tmp_path / "again"), "--srcdict", str(data)]) == 0
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
    said = []
    for text in (CURLY["en"], plain["en"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{text}\n".encode()), encoding="utf-8"))
        capsys.readouterr()
        assert translate(["--path", str(run), "--input-format", "corpus"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    head = "group\tcorrect\tsrc_context\tsrc\ttgt_context\ttgt\n"
    rows = [f"1\t{n}\t\t{CURLY['en']}\t\t{text}\n" for n, text in ((1, CURLY["de"]), (0, "Lampe."))]
    (tmp_path / "set.tsv").write_text(head + "".join(rows), encoding="utf-8")
    assert score(["--contrastive", str(tmp_path / "set.tsv"), "--path", str(run)]) == 0


def test_places_of_subwords_are_those_of_the_text_as_it_was() -> None:
    plain = Tokenizer.train(['he said "so it is": yes'] * 4, 40, exact=False)
    own = plain.prepared(type(plain.preparation)(punctuation="en"))
    text = "he said “so it is” : yes"
    spans = own.spans(text)
    pieces = own.pieces(own.encode([text])[0])
    assert len(spans) == len(pieces)
    assert [begin for begin, _ in spans] == sorted(begin for begin, _ in spans)
    for (begin, end), piece in zip(spans, pieces, strict=True):
        if piece.strip("▁").isalpha():
            assert text[begin:end] == piece.strip("▁")
    assert Tokenizer.from_bytes(own.to_bytes()).preparation == own.preparation
    assert own.prepared(plain.preparation).to_bytes() == plain.to_bytes()


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
    assert preprocess([*words, "--detokenize", "moses"]) == 0
    stored = ParallelCorpus.open(tmp_path / "data", "train")
    for language, found in (("en", stored.source_text), ("de", stored.references[0])):
        expected = [MosesDetokenizer(lang=language).detokenize(line.split())
                    for line in (tmp_path / f"train.{language}").read_text(encoding="utf-8").splitlines()]  # fmt: skip
        assert list(found) == expected
    assert list(stored.references[0]) == texts["de"]
