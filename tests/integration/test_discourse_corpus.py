"""The discourse corpus: a sentence alone tells nothing, its document tells all. Checked in the files written."""

import csv
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes" / "quickstart"))

import documents
import lengthen
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


def questions(folder, name="contrastive.tsv"):
    with (folder / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    groups = defaultdict(list)
    for row in rows:
        groups[row["group"]].append(row)
    return list(groups.values())


def test_the_same_seed_writes_the_same_files(folder, tmp_path):
    make.main(["--out", str(tmp_path), "--train-documents", "3000", "--test-documents", "60", "--groups", str(GROUPS)])
    for file in folder.iterdir():
        assert file.read_bytes() == (tmp_path / file.name).read_bytes(), file.name
    make.main(
        ["--out", str(tmp_path), "--train-documents", "3000", "--test-documents", "60", "--seed", "2", "--groups", "12"]
    )
    assert (folder / "train.en").read_bytes() != (tmp_path / "train.en").read_bytes()


def test_splits_share_words_but_no_documents(folder):
    texts = {split: read(folder, split) for split in ("train", "valid", "test")}
    train = {word for document in texts["train"] for pair in document for side in pair for word in side.split()}
    for split in ("valid", "test"):
        assert not {str(document) for document in texts["train"]} & {str(document) for document in texts[split]}
        words = {word for document in texts[split] for pair in document for side in pair for word in side.split()}
        assert words <= train


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
    groups = questions(folder)
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


def test_the_antecedent_stands_at_the_distance_told(folder):
    """The documents of a block differ in two sentences only: the antecedent at its distance, and the rival, nearer."""
    groups = iter(questions(folder))
    for rows in groups:
        block = [rows, *(next(groups) for _ in range(len(rows) - 1))]
        contexts = [group[0]["src_context"].split("<SEP>") for group in block]
        assert len({(group[0]["src"], len(context)) for group, context in zip(block, contexts, strict=True)}) == 1
        last = len(contexts[0])
        differ = [last - i for i, sentences in enumerate(zip(*contexts, strict=True)) if len(set(sentences)) > 1]
        distance = int(rows[0]["distance"])
        assert len(differ) == 2
        assert distance in differ
        assert min(differ) < distance or distance == 1


def test_combinations_of_splits_are_disjoint_and_cover_every_row_and_column():
    for rows, columns in ((5, 2), (3, 2), (10, 10), (5, 5), (16, 4)):
        cells = {split: {(i, j) for i in range(rows) for j in range(columns) if threads.in_split(i, j, split)}
                 for split in ("train", "valid", "test")}  # fmt: skip
        assert all(cells.values())
        assert sum(map(len, cells.values())) == rows * columns == len(set().union(*cells.values()))
        assert {i for i, _ in cells["train"]} == set(range(rows))
        assert {j for _, j in cells["train"]} == set(range(columns))


def test_foreign_contexts_come_from_other_sentences(folder):
    true, foreign = questions(folder), questions(folder, "contrastive.foreign.tsv")
    assert [rows[0]["src"] for rows in true] == [rows[0]["src"] for rows in foreign]
    known = {rows[0]["src_context"]: rows[0]["tgt_context"] for rows in true}
    for before, after in zip(true, foreign, strict=True):
        assert before[0]["src_context"] != after[0]["src_context"]
        assert known[after[0]["src_context"]] == after[0]["tgt_context"]


@pytest.mark.parametrize("every", [1, 2])
def test_longer_documents_ask_the_same(folder, capsys, every):
    lengthen.main([str(folder / "contrastive.tsv"), "--sentences", "40", "--every", str(every)])
    lines = capsys.readouterr().out.splitlines()
    rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    short = {row["group"] + row["tgt"]: row for group in questions(folder) for row in group}
    fillers = {pair.en for pair in lexicon.FILLERS}
    for row in rows:
        before = short[row["group"] + row["tgt"]]
        sides = [row[side].split(make.SEPARATOR) for side in ("src_context", "tgt_context")]
        assert [len(side) for side in sides] == [39, 39]
        assert row["src_context"].endswith(make.SEPARATOR + before["src_context"])
        assert row["tgt_context"].endswith(make.SEPARATOR + before["tgt_context"])
        assert set(sides[0][: 39 - before["src_context"].count(make.SEPARATOR) - 1]) <= fillers
    cells = Counter((row["phenomenon"], row["distance"]) for row in rows if row["correct"] == "1")
    assert len(cells) == 4 * len(documents.DISTANCES)
    assert min(cells.values()) >= GROUPS // every
    right = Counter((row["src"], row["tgt"]) for row in rows if row["correct"] == "1")
    answers = defaultdict(set)
    for row in rows:
        answers[row["src"]].add(row["tgt"])
    for source, texts in answers.items():
        assert len({right[source, text] for text in texts}) == 1  # every answer is right equally often
