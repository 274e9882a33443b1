"""The discourse corpus: a sentence alone tells nothing, its document tells all. Checked in the files written."""

import csv
import sys
from collections import Counter, defaultdict
from itertools import groupby
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes" / "quickstart"))

import documents
import lexicon
import make
import threads

GROUPS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("discourse") / "corpus"
    make.main(["--out", str(out), "--train-documents", "3000", "--test-documents", "60", "--groups", str(GROUPS)])
    return out


def read(folder, split):
    """Documents as lists of (English, German) sentences."""
    sides = [
        (folder / f"{split}.{side}").read_text(encoding="utf-8").strip("\n").split("\n\n") for side in ("en", "de")
    ]
    return [list(zip(en.split("\n"), de.split("\n"), strict=True)) for en, de in zip(*sides, strict=True)]


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_no_sentence_tells_its_translation(folder, split):
    """Every translation of an ambiguous sentence, and at every word every continuation, is equally frequent."""
    translations = defaultdict(Counter)
    for document in read(folder, split):
        for en, de in document:
            translations[en][de] += 1
    ambiguous = {en: counts for en, counts in translations.items() if len(counts) > 1}
    assert len(ambiguous) > 30
    for en, counts in ambiguous.items():
        if "does too" in en:  # the verbs form triples, some of them used more often than others
            counts_of = {triple: [n for de, n in counts.items() if verbs_of(de) == triple] for triple in range(4)}
        else:
            counts_of = {0: list(counts.values())}
            assert len(counts) in (2, 3)
        for numbers in counts_of.values():
            assert len(set(numbers)) <= 1, (en, counts)
            assert len(numbers) != 1, (en, counts)


def verbs_of(sentence):
    (triple,) = {
        i
        for i, verbs in enumerate(lexicon.ACTIVITIES)
        for verb in verbs
        if verb.de in sentence.replace(",", "").split()
    }
    return triple


def test_contrastive_groups_ask_what_only_the_context_answers(folder):
    rows = (folder / "contrastive.tsv").read_text(encoding="utf-8").splitlines()
    reader = csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE)
    groups = [list(group) for _, group in groupby(reader, lambda row: row["group"])]
    cells = Counter((rows[0]["phenomenon"], int(rows[0]["distance"])) for rows in groups)
    assert set(cells.values()) == {GROUPS}
    assert set(cells) == {(p, d) for p in threads.PHENOMENA for d in documents.DISTANCES}
    chance = {"pronoun": 3, "ellipsis": 3, "sense": 2, "address": 2}
    right = defaultdict(Counter)
    for rows in groups:
        assert [row["correct"] for row in rows] == ["1"] + ["0"] * (len(rows) - 1)
        assert len({row["tgt"] for row in rows}) == len(rows) == chance[rows[0]["phenomenon"]]
        assert len({(row["src_context"], row["src"], row["tgt_context"], row["distance"]) for row in rows}) == 1
        source, target = (rows[0][side].split("<SEP>") for side in ("src_context", "tgt_context"))
        assert len(source) == len(target) >= max(documents.MIN_SENTENCES - 1, int(rows[0]["distance"]))
        answers = tuple(sorted(row["tgt"] for row in rows))
        right[rows[0]["src"], rows[0]["distance"], answers][rows[0]["tgt"]] += 1
    for (_, _, answers), counts in right.items():
        assert len(counts) == len(answers)
        assert len(set(counts.values())) == 1
