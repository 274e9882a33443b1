"""The numbers of a report: sacreBLEU on the sentences themselves, and SciPy, are the second routes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from scipy.stats import binomtest
from scored import corpus, write

from docnmt.apps.report import (
    Bootstrap,
    read_test_sets,
)
from docnmt.cli import score
from docnmt.core.scoring.config import DEFAULT
from docnmt.core.scoring.metrics import Evaluation, evaluate
from docnmt.core.scoring.report import PartScores, parts


def test_an_interval_is_of_the_documents_drawn() -> None:
    """With one sample, its two ends are sacreBLEU's score of the text that was drawn."""
    hypothesis, reference, system = evaluated_of_parts()
    offsets = system.document_offsets
    drawn = np.random.default_rng(7).multinomial(9, np.full(9, 1 / 9))
    lines = [s for d, times in enumerate(drawn) for _ in range(times) for s in range(offsets[d], offsets[d + 1])]
    interval = Bootstrap(samples=1, seed=7).interval(system, "chrF", system.counts["chrF"])
    expected = CHRF().corpus_score([hypothesis[s] for s in lines], [[reference[s] for s in lines]]).score
    assert (interval.low, interval.high) == pytest.approx((expected, expected))
    assert interval.score == pytest.approx(system.scores["chrF"])


def discourse(path: Path, solved: list[bool], labels: list[str]) -> str:
    rows = list(zip(solved, labels, strict=True))
    cells = {value: [done for done, label in rows if label == value] for value in sorted(set(labels))}

    def accuracy(done: list[bool]) -> dict[str, float]:
        return {"accuracy": 100 * sum(done) / len(done), "chance": 50.0, "groups": len(done)}

    content = {
        **accuracy(solved),
        "by": {"distance": {value: accuracy(done) for value, done in cells.items()}},
        "solved": [{"distance": label, "solved": done} for done, label in rows],
    }
    path.write_text(json.dumps(content))
    return str(path)


def test_contrastive_files_of_one_test_set_are_compared(tmp_path: Path) -> None:
    draw = random.Random(1)
    labels = [draw.choice("123") for _ in range(300)]
    one, two = ([draw.random() < share for _ in labels] for share in (0.6, 0.5))
    files = [discourse(tmp_path / "one.json", one, labels), discourse(tmp_path / "two.json", two, labels)]
    alone = discourse(tmp_path / "alone.json", one[:50], labels[:50])
    both, single = read_test_sets([*files, alone])
    assert [len(both.files), both.groups, len(single.files), single.groups] == [2, 300, 1, 50]
    (disagreement,) = both.disagreements
    only = [sum(a > b for a, b in zip(one, two, strict=True)), sum(a < b for a, b in zip(one, two, strict=True))]
    assert [disagreement.only_first, disagreement.only_second] == only
    assert disagreement.p_value == pytest.approx(binomtest(only[0], sum(only)).pvalue)
    wilson = binomtest(sum(one), 300).proportion_ci(method="wilson")
    overall = both.files[0].overall
    assert (overall.low, overall.high) == pytest.approx((100 * wilson.low, 100 * wilson.high))
    groups, accuracy = both.files[1].by["distance"]["2"]
    members = [done for done, label in zip(two, labels, strict=True) if label == "2"]
    assert (groups, accuracy.score) == (len(members), pytest.approx(100 * np.mean(members)))


# Scores of parts of a text: their counts add up to the text's, and each is sacreBLEU's on its sentences.


BY = ["position", "document-length", "sentence-length"]


def evaluated_of_parts() -> tuple[list[str], list[str], Evaluation]:
    hypothesis, reference, offsets = corpus(11, sentences=90, documents=9)
    return hypothesis, reference, evaluate(hypothesis, [reference], offsets, metrics=(*DEFAULT, "TER"))


@pytest.mark.parametrize("by", BY)
def test_every_sentence_is_in_one_part_which_is_scored_as_its_sentences_are(by: str) -> None:
    hypothesis, reference, evaluation = evaluated_of_parts()
    every = parts(by, evaluation)
    assert sorted(np.concatenate([part.sentences for part in every])) == list(range(90))
    for name, counts in evaluation.sentence_counts.items():
        summed = sum(counts[part.sentences].sum(axis=0) for part in every)
        assert evaluation.score(name, summed) == evaluation.scores[name]
    for part in every:
        chosen = [[side[n] for n in part.sentences] for side in (hypothesis, reference)]
        measured = evaluation.of_part(part.sentences)
        for metric, scorer in {"s-BLEU": BLEU(), "chrF": CHRF(), "TER": TER()}.items():
            assert measured[metric] == pytest.approx(scorer.corpus_score(chosen[0], [chosen[1]]).score)


def test_parts_are_named_by_what_their_sentences_share() -> None:
    lines = ["a b .", "a b c d e .", "a", "a b", "b", "a", "b"]
    evaluation = evaluate(lines, [lines], [0, 1, 6, 7])
    groups = {by: {part.label: part.sentences.tolist() for part in parts(by, evaluation)} for by in BY}
    assert groups["position"] == {"1": [0, 1, 6], "2": [2], "3-4": [3, 4], "5-8": [5]}
    assert groups["document-length"] == {"1": [0, 6], "5-8": [1, 2, 3, 4, 5]}
    assert groups["sentence-length"] == {"1-5": [0, 2, 3, 4, 5, 6], "6-10": [1]}


def test_documents_are_whole_in_parts_by_their_length() -> None:
    hypothesis, reference, evaluation = evaluated_of_parts()
    scores = PartScores.of("document-length", {"system": evaluation})
    offsets = evaluation.document_offsets
    for part, values in zip(scores.parts, scores.scores["system"], strict=True):
        spans = [(offsets[d], offsets[d + 1]) for d in part.documents]
        joined = [[" ".join(filter(None, side[a:b])) for a, b in spans] for side in (hypothesis, reference)]
        assert values["d-BLEU"] == pytest.approx(BLEU().corpus_score(joined[0], [joined[1]]).score)
    assert "d-BLEU" not in PartScores.of("position", {"system": evaluation}).scores["system"][0]


def test_the_command_prints_and_draws_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "Das Haus ist alt .\nDas Haus ist rot .\n\nEin Hund bellt laut .\n"
    ref, sys_, other = map(str, write(tmp_path, ref=text, sys=text.replace("rot", "neu"), other=text))
    arguments = ["--ref", ref, "--sys", sys_, "--by", "position", "--metrics", "TER"]
    assert score.main(arguments) == 0
    table = [line.split("\t") for line in capsys.readouterr().out.splitlines() if "\t" in line]
    assert table[0] == ["position", "sentences", "documents", "s-BLEU", "chrF", "TER"]
    assert [row[:3] for row in table[1:]] == [["1", "2", "2"], ["2", "1", "1"]]
    assert score.main([*arguments, "--paired", other, "--plot", f"{tmp_path}/by.svg", "--json"]) == 0
    assert (tmp_path / "by.svg").read_text(encoding="utf-8").startswith("<?xml")
    content = json.loads(capsys.readouterr().out)["of_parts"]
    assert content["parts"][1]["other"]["TER"] == 0
    assert content["parts"][1]["system"]["TER"] == 20


# docnmt-score on tables gives what it gives on plain text.


ROWS = [
    {"document_id": "a", "source": "one two three four five", "target": "A B C D E F", "hypothesis": "A B C D X F"},
    {"document_id": "a", "source": "six seven", "target": "G H\nI J K", "hypothesis": "G H I J Y"},
    {"document_id": "b", "source": "eight nine ten", "target": "L M N O P", "hypothesis": ""},
    {"document_id": "b", "source": "eleven", "target": "Q R S T U V", "hypothesis": "Q R S T\n\nU V"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The same rows as JSONL, TSV, Parquet and plain text."""
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    flat = [[" ".join(str(value).split()) for value in row.values()] for row in ROWS]
    (tmp_path / "all.tsv").write_text("".join("\t".join(row) + "\n" for row in [list(ROWS[0]), *flat]))
    for column, name in enumerate(("document", "src", "ref", "sys")):
        lines = [row[column] for row in flat]
        (tmp_path / name).write_text("\n".join([*lines[:2], "", *lines[2:]]) + "\n")
    return tmp_path


def scores(capsys: pytest.CaptureFixture[str], folder: Path, **files: str) -> dict[str, object]:
    options = [part for name, file in files.items() for part in (f"--{name}", str(folder / file))]
    assert score.main([*options, "--json", "--per-document"]) == 0
    printed: dict[str, object] = json.loads(capsys.readouterr().out)
    return printed


@pytest.mark.parametrize("kind", ["jsonl", "tsv", "parquet"])
def test_tables_score_as_plain_text(capsys: pytest.CaptureFixture[str], folder: Path, kind: str) -> None:
    table = f"all.{kind}"
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(ROWS), folder / table)
    plain = scores(capsys, folder, ref="ref", sys="sys", src="src", paired="ref")
    assert plain["documents"] == 2
    assert scores(capsys, folder, ref=table, sys=table, src=table, paired="ref") == plain
    assert scores(capsys, folder, ref="ref", sys=table, src="src", paired="ref") == plain
    assert scores(capsys, folder, ref=table, sys="sys", src=table, paired="ref") == plain


def written(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path.name


@pytest.mark.parametrize("src", [True, False])
def test_rows_without_a_partner_are_not_scored(capsys: pytest.CaptureFixture[str], folder: Path, src: bool) -> None:
    """Nor do they end a document: the table names its documents."""
    lonely = {"document_id": "b", "source": "twelve", "target": None, "hypothesis": "Z"}
    unasked = {"document_id": "b", "source": "", "target": "M", "hypothesis": ""}
    table = written(folder / "more.jsonl", [*ROWS[:3], lonely, *([unasked] if src else []), ROWS[3]])

    def scored(table: str) -> dict[str, object]:
        return scores(capsys, folder, ref=table, sys=table, **({"src": table} if src else {}))

    several = scored(table)
    assert several.pop("unscored") == 1 + src
    assert several == scored("all.jsonl")


def test_documents_are_matched_by_name(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    true = scores(capsys, folder, ref="all.jsonl", sys="all.jsonl")
    other = written(folder / "other.jsonl", [*ROWS[2:], *ROWS[:2]])
    assert scores(capsys, folder, ref="all.jsonl", sys=other) == true
    assert scores(capsys, folder, ref=other, sys="all.jsonl", src=other)["s-BLEU"] == pytest.approx(true["s-BLEU"])
    named = written(folder / "named.jsonl", [{**row, "document_id": f"other {row['document_id']}"} for row in ROWS])
    assert scores(capsys, folder, ref="all.jsonl", sys=named) == true  # as they stand: no name is in both
    empty = {"document_id": "a", "source": "s", "target": "", "hypothesis": ""}  # a row that only one side has
    ref = written(folder / "ref.jsonl", [*ROWS[:2], empty, *ROWS[2:]])
    assert scores(capsys, folder, ref=ref, sys=other)["s-BLEU"] == pytest.approx(true["s-BLEU"])


def test_what_is_not_scored_keeps_its_number(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    unknown = {"source": "s", "target": "", "hypothesis": "z"}
    rows = [{"document_id": "0", **unknown}, ROWS[0], {"document_id": "a", **unknown}, *ROWS[1:]]
    table = str(folder / written(folder / "more.jsonl", rows))
    options = ["--ref", table, "--sys", table, "--per-sentence", "--per-document"]
    assert score.main([*options, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [bool(entry) for entry in content["of_sentences"]] == [False, True, False, True, True, True]
    assert [bool(entry) for entry in content["of_documents"]] == [False, True, True]
    assert score.main(options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("document\ts-BLEU\td-BLEU\tchrF") + 1] == "1\t-\t-\t-"
    assert lines[lines.index("sentence\tchrF") + 3] == "3\t-"


def test_a_text_may_lack_what_the_source_lacks(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """docnmt-generate has no line for a target sentence without a source."""
    unasked = {"document_id": "a", "source": "", "target": "M", "hypothesis": ""}
    table = written(folder / "more.jsonl", [ROWS[0], unasked, *ROWS[1:]])
    expected = scores(capsys, folder, ref="ref", sys="sys", src="src")
    assert scores(capsys, folder, ref=table, sys="sys", src=table) == {**expected, "unscored": 1}
    (folder / "short").write_text("A\n\nB\n")
    assert score.main(["--ref", str(folder / table), "--sys", str(folder / "short"), "--src", str(folder / table)]) == 1
    assert "short:" in capsys.readouterr().err
