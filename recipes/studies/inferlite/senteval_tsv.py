"""SentEval's own download → the folder of TSV files that docnmt-senteval reads.

SentEval's `data/downstream/get_transfer_data.bash` fetches and tokenises the tasks; tasks whose folder is not there are
left out and named.
    python recipes/studies/inferlite/senteval_tsv.py SentEval/data/downstream senteval
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from docnmt.other_tasks.sentence_vectors.senteval import TASKS
from docnmt.runtime.system import UserError, write_text

#: A file's path in the new folder → its header and rows.
Tables = dict[str, tuple[str, list[list[str]]]]

LABELLED, LABELLED_PAIRS, SCORED_PAIRS = "label\ttext", "label\ttext\ttext2", "score\ttext\ttext2"
#: Files of class 1 and of class 0.
BINARY = {
    "MR": ("rt-polarity.pos", "rt-polarity.neg"),
    "CR": ("custrev.pos", "custrev.neg"),
    "SUBJ": ("subj.objective", "subj.subjective"),
    "MPQA": ("mpqa.pos", "mpqa.neg"),
}
QUESTIONS = {"DESC": "0", "ENTY": "1", "ABBR": "2", "HUM": "3", "LOC": "4", "NUM": "5"}


def read_lines(path: Path, encoding: str = "utf-8-sig") -> list[str]:
    """The lines of a file, which end at `\\n` only."""
    try:
        text = path.read_bytes().decode(encoding)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}; is this SentEval's folder data/downstream?") from error
    return text.removesuffix("\n").split("\n")


def read_fields(
    path: Path, places: Sequence[int], *, skip: int = 0, encoding: str = "utf-8-sig",
    split: Callable[[str], list[str]] = lambda line: line.split("\t"),
) -> list[list[str]]:  # fmt: skip
    """The fields at `places` of every line after the first `skip`; white space within becomes single spaces."""
    rows = []
    for number, line in enumerate(read_lines(path, encoding)[skip:], skip + 1):
        fields = split(line)
        if len(fields) <= max(places):
            raise UserError(f"{path}: line {number}: expected {max(places) + 1} fields, got '{line[:50]}'")
        rows.append([" ".join(fields[column].split()) for column in places])
    return rows


def binary(name: str, source: Path) -> Tables:
    """MR, CR, SUBJ, MPQA: a file a class, a text a line."""
    rows = [
        [label, *row]
        for label, file in zip("10", BINARY[name], strict=True)
        for row in read_fields(source / file, [0], encoding="latin-1", split=lambda line: [line])
    ]
    return {f"{name}/all.tsv": (LABELLED, rows)}


def sst(source: Path) -> Tables:
    """A text, a tab and its class a line (binary); a class, a space and its text (fine)."""
    tables: Tables = {}
    for split, binary_name in (("train", "train_phrases67k"), ("dev", "dev"), ("test", "test")):
        tables[f"SST2/{binary_name}.tsv"] = (LABELLED, read_fields(source / f"binary/sentiment-{split}", [1, 0]))
        fine = read_fields(source / f"fine/sentiment-{split}", [0, 1], split=lambda line: line.split(" ", 1))
        tables[f"SST5/{split}.tsv"] = (LABELLED, fine)
    return tables


def trec(source: Path) -> Tables:
    """`DESC:manner How …`: class, finer class, question."""
    tables: Tables = {}
    for split, file in (("train", "train_5500"), ("test", "TREC_10")):
        path = source / f"{file}.label"
        rows = read_fields(path, [0, 1], encoding="latin-1", split=lambda line: re.split(r":\S+ ", line, maxsplit=1))
        if unknown := {name for name, _ in rows} - set(QUESTIONS):
            raise UserError(f"{path}: expected the classes {', '.join(QUESTIONS)}, got {', '.join(sorted(unknown))}")
        tables[f"TREC/{split}.tsv"] = (LABELLED, [[QUESTIONS[name], text] for name, text in rows])
    return tables


def mrpc(source: Path) -> Tables:
    """Class, two numbers and two texts; there are no validation pairs, so their table is empty."""
    tables: Tables = {"MRPC/val.tsv": (LABELLED_PAIRS, [])}
    for split in ("train", "test"):
        rows = read_fields(source / f"msr_paraphrase_{split}.txt", [0, 3, 4], skip=1)
        tables[f"MRPC/{split}.tsv"] = (LABELLED_PAIRS, rows)
    return tables


def sick(source: Path) -> Tables:
    """Number, two texts, score and class."""
    tables: Tables = {}
    for split, file in (("train", "train"), ("trial", "trial"), ("test", "test_annotated")):
        rows = read_fields(source / f"SICK_{file}.txt", [4, 3, 1, 2], skip=1)
        tables[f"SICK/{split}.tsv"] = ("label\tscore\ttext\ttext2", rows)
    return tables


def benchmark(source: Path) -> Tables:
    """Genre, file, year, number, score and two texts."""
    return {
        f"STSB/{split}.tsv": (SCORED_PAIRS, read_fields(source / f"sts-{split}.csv", [4, 5, 6]))
        for split in ("train", "dev", "test")
    }


def similarity(name: str, source: Path) -> Tables:
    """STS12 to STS16: a file of pairs and one of scores a subset; pairs without a score are left out."""
    tables: Tables = {}
    for subset in TASKS[name].files:
        stems = [subset, f"surprise.{subset}"]  # as two of STS12 are called
        file = next((stem for stem in stems if (source / f"STS.input.{stem}.txt").exists()), subset)
        if subset in TASKS[name].optional and not (source / f"STS.input.{file}.txt").exists():
            continue
        pairs = read_fields(source / f"STS.input.{file}.txt", [0, 1])
        path = source / f"STS.gs.{file}.txt"
        scores = [line.strip() for line in read_lines(path)]
        if len(scores) != len(pairs):
            raise UserError(f"{path}: has {len(scores)} lines, STS.input.{file}.txt beside it {len(pairs)}")
        rows = [[score, *pair] for score, pair in zip(scores, pairs, strict=True) if score]
        tables[f"{name}/{subset}.tsv"] = (SCORED_PAIRS, rows)
    return tables


def convert(source: Path) -> tuple[Tables, list[str]]:
    """The tables of all tasks whose folder is there, and the folders that are not."""
    readers: dict[str, Callable[[Path], Tables]] = {
        **{name: partial(binary, name) for name in BINARY},
        "SST": sst, "TREC": trec, "MRPC": mrpc, "SICK": sick, "STS/STSBenchmark": benchmark,
        **{f"STS/{n}-en-test": partial(similarity, n) for n, task in TASKS.items() if task.kind == "similarity"},
    }  # fmt: skip
    tables: Tables = {}
    for folder, reader in readers.items():
        if (source / folder).is_dir():
            tables |= reader(source / folder)
    return tables, [folder for folder in readers if not (source / folder).is_dir()]


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="SentEval's folder data/downstream")
    parser.add_argument("output", type=Path, help="new folder to write")
    options = parser.parse_args(argv)
    try:
        if options.output.exists():
            raise UserError(f"{options.output}: exists already; choose the name of a new folder")
        tables, missing = convert(options.source)
        if not tables:
            raise UserError(f"{options.source}: has none of the folders {', '.join(missing)}; give data/downstream")
        for name, (header, rows) in tables.items():
            write_text(options.output / name, "".join(f"{line}\n" for line in (header, *map("\t".join, rows))))
            print(f"{name}: {len(rows):,} rows")
    except UserError as error:
        parser.error(str(error))
    if missing:
        print(f"left out, not in {options.source}: {', '.join(missing)}", file=sys.stderr)


if __name__ == "__main__":
    main()
