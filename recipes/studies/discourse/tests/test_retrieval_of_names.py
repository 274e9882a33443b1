"""The look-up by name: what nothing trained finds in the generated documents."""

import csv
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[3] / "quickstart"))

import make
import retrieval
from lengthen import among_threads


def test_the_nearest_sentence_with_the_same_name_decides_unless_the_context_is_foreign(tmp_path: Path) -> None:
    make.main(["--out", str(tmp_path), "--train-documents", "3000", "--test-documents", "60", "--groups", "12"])
    choose = retrieval.same_name((tmp_path / "train.en").read_text(encoding="utf-8").split("\n"))
    shares = []
    for name in ("contrastive.tsv", "contrastive.foreign.tsv"):
        with (tmp_path / name).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        firsts = {row["group"]: row for row in reversed(rows)}.values()
        decided = []
        for first in firsts:
            context = first["src_context"].split("<SEP>")
            decided.append(choose(first["src"], context) == [len(context) - int(first["distance"])])
        shares.append(sum(decided) / len(decided))
    assert shares[0] == 1
    assert shares[1] < 0.2


def test_threads_about_the_same_person_leave_the_context_and_mislead_the_look_up(tmp_path: Path) -> None:
    make.main(["--out", str(tmp_path), "--train-documents", "3000", "--test-documents", "60", "--groups", "12"])
    with (tmp_path / "contrastive.tsv").open(encoding="utf-8", newline="") as file:
        short = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    longer = list(among_threads([dict(row) for row in short], 40, random.Random(1), same=True))
    other = list(among_threads([dict(row) for row in short], 40, random.Random(1), same=False))
    assert [row["distance"] for row in longer] == [row["distance"] for row in other]
    choose = retrieval.same_name((tmp_path / "train.en").read_text(encoding="utf-8").split("\n"))
    by_name = []
    for row, other in zip(short, longer, strict=True):
        assert int(other["distance"]) <= 12
        before, after = (one["src_context"].split("<SEP>") for one in (row, other))
        places = iter(after)
        assert len(after) == len(other["tgt_context"].split("<SEP>")) == 39
        assert all(sentence in places for sentence in before)  # in their order
        assert after[len(after) - int(other["distance"])] == before[len(before) - int(row["distance"])]
        by_name.append(choose(other["src"], after) == [len(after) - int(other["distance"])])
    assert sum(by_name) / len(by_name) < 0.2  # at distance 12 nothing is added behind
