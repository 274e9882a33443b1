"""The study's data sets as train, valid and test tables for docnmt-preprocess.

    python recipes/studies/fusion_matters/make_data.py novels33 ~/corpora/novels33 tables/novels33
    docnmt-preprocess --task text_classification --train tables/novels33/train.jsonl \\
        --valid tables/novels33/valid.jsonl --test tables/novels33/test.jsonl --destdir data-bin/novels33

What FOLDER holds:

    ag_news      train.csv and test.csv of Zhang et al. 2015 (class, title, description), or, of a part of the training
                 texts, tables train10k.tsv and test.tsv with a class of 0 to 3
    imdb         aclImdb's train/pos, train/neg, test/pos, test/neg, or train.jsonl and test.jsonl with 0 and 1
    novels33     train.jsonl, val.jsonl, test.jsonl, their labels numbers of the lines of classes.txt: passages of 3,500
                 words of computationalstylistics/100_english_novels, one novel of each of 33 authors for the test
    scotus_oral  the same files: oral arguments of the US supreme court, by issue area
    arxiv        ccdv/arxiv-classification as train_data.txt, val_data.txt, test_data.txt, a JSON object with `text` and
                 `label` a line; texts that are only white space are dropped, as the notebooks do, and counted

Splits depend on nothing but the files. All training texts are kept (of AG News's 120,000 the study then trains on the
108,000 that the notebooks have), or with --training-texts N about so many, the same number of each label, drawn with
seed 20240; test parts are always whole. AG News and IMDB have no validation part; a tenth of each label's training
texts is held out, drawn with seed 20240. --shuffle-words puts the words of every text into random order, in all parts:
what positions bring there is not order.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from docnmt.cli import command as cli
from docnmt.other_tasks.classification import read_labelled
from docnmt.runtime.system import UsageError, UserError, write_text

Rows = list[tuple[str, str]]
SPLITS = ("train", "valid", "test")


def ag_news(folder: Path) -> dict[str, Rows]:
    """All training texts that the folder has, the complete test set; labels by name."""
    names = ("World", "Sports", "Business", "Sci/Tech")
    if (folder / "train.csv").exists():
        paths = [folder / f"{split}.csv" for split in ("train", "test")]
        train, test = (
            [(label, text.replace("\\", " ")) for label, text in named(table(path), names, path, first=1)]
            for path in paths
        )  # a backslash is a line break there
        return {"train": train, "test": test}
    files = {split: folder / file for split, file in (("train", "train10k.tsv"), ("test", "test.tsv"))}
    return {split: named(table(path), names, path) for split, path in files.items()}


def imdb(folder: Path) -> dict[str, Rows]:
    """The whole labelled part; line breaks of the reviews (`<br />`) become spaces."""
    names = ("negative", "positive")
    if (folder / "train").is_dir():
        read = {split: [*reviews(folder / split, *names)] for split in ("train", "test")}
    else:
        files = {split: folder / f"{split}.jsonl" for split in ("train", "test")}
        read = {split: named(table(path), names, path) for split, path in files.items()}
    return {s: [(label, text.replace("<br />", " ")) for label, text in rows] for s, rows in read.items()}


def given_splits(folder: Path) -> dict[str, Rows]:
    """Corpora that come as train, val and test, their labels as numbers of the lines of classes.txt."""
    names = (folder / "classes.txt").read_text(encoding="utf-8").split("\n")
    names = [name.strip() for name in names if name.strip()]
    files = {"train": "train.jsonl", "valid": "val.jsonl", "test": "test.jsonl"}
    return {split: named(table(folder / file), names, folder / file) for split, file in files.items()}


def arxiv(folder: Path) -> dict[str, Rows]:
    """11 classes of papers, several thousand words each."""
    files = {"train": "train_data.txt", "valid": "val_data.txt", "test": "test_data.txt"}
    parts: dict[str, Rows] = {}
    for split, file in files.items():
        rows = list(json_lines(folder / file))
        parts[split] = [row for row in rows if row[1].strip()]
        print(f"{file}: {len(rows) - len(parts[split])} of {len(rows)} texts are empty and dropped", file=sys.stderr)
    return parts


DATASETS: dict[str, Callable[[Path], dict[str, Rows]]] = {
    "ag_news": ag_news,
    "imdb": imdb,
    "novels33": given_splits,
    "scotus_oral": given_splits,
    "arxiv": arxiv,
}


def parts_of(dataset: str, folder: Path, texts: int | None = None) -> dict[str, Rows]:
    """Training, validation and test part; `texts`: draw so many for training and validation together."""
    parts = DATASETS[dataset](folder)
    if texts is not None:
        labels = len({label for label, _ in parts["train"]})
        parts["train"] = drawn(parts["train"], max(texts // labels, 1))
    return parts if "valid" in parts else held_out(parts)


def reviews(folder: Path, negative: str, positive: str) -> Iterator[tuple[str, str]]:
    """The texts of `neg` and `pos`, a file each, in the order of their names."""
    for name, label in (("neg", negative), ("pos", positive)):
        paths = sorted((folder / name).glob("*.txt"))
        if not paths:
            raise UserError(f"{folder / name}: expected a .txt file a review, there is none")
        yield from ((label, path.read_text(encoding="utf-8")) for path in paths)


def drawn(rows: Rows, most: int) -> Rows:
    """At most `most` rows of every label, in the order of the file."""
    by_label = numbers_by_label(rows)
    rng = np.random.default_rng(20240)
    chosen = [
        rng.choice(by_label[label], size=min(most, len(by_label[label])), replace=False) for label in sorted(by_label)
    ]
    return [rows[number] for number in sorted(np.concatenate(chosen).tolist())]


def shuffled(parts: dict[str, Rows]) -> dict[str, Rows]:
    """The words of every text in a random order, drawn with seed 20240."""
    rng = np.random.default_rng(20240)
    return {
        split: [(label, " ".join(rng.permutation(text.split()).tolist())) for label, text in rows]
        for split, rows in parts.items()
    }


def table(path: Path) -> Rows:
    """Labels and texts of a table."""
    rows = read_labelled(path)
    return list(zip(rows.labels, rows.texts, strict=True))


def named(rows: Rows, names: Sequence[str], path: Path, first: int = 0) -> Rows:
    """The rows of `path` with names in place of the labels' numbers, which begin at `first`."""
    numbers = {str(first + number): name for number, name in enumerate(names)}
    for row, (label, _) in enumerate(rows, 1):
        if label not in numbers:
            most = first + len(names) - 1
            raise UserError(f"{path}, row {row}: expected a label from {first} to {most}, got '{label}'")
    return [(numbers[label], text) for label, text in rows]


def json_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Labels and texts of JSON lines, whatever the file is called."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                yield str(row["label"]), row["text"]
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{path}:{number}: expected a JSON object with 'label' and 'text'") from error


def held_out(parts: dict[str, Rows], share: float = 0.1) -> dict[str, Rows]:
    """Hold out a share of each label's training texts for validation; both parts keep the order of the file."""
    by_label = numbers_by_label(parts["train"])
    rng = np.random.default_rng(20240)
    chosen: set[int] = set()
    for label in sorted(by_label):
        numbers = by_label[label]
        chosen.update(rng.choice(numbers, size=round(share * len(numbers)), replace=False).tolist())
    train = [row for number, row in enumerate(parts["train"]) if number not in chosen]
    valid = [row for number, row in enumerate(parts["train"]) if number in chosen]
    return {"train": train, "valid": valid, "test": parts["test"]}


def numbers_by_label(rows: Rows) -> dict[str, list[int]]:
    """Which rows each label has."""
    by_label: dict[str, list[int]] = defaultdict(list)
    for number, (label, _) in enumerate(rows):
        by_label[label].append(number)
    return by_label


def body(argv: list[str]) -> None:
    """Parse, read, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("dataset", choices=DATASETS)
    parser.add_argument("source", type=Path, metavar="FOLDER", help="where the corpus is")
    parser.add_argument("target", type=Path, metavar="DESTDIR", help="where the tables go")
    parser.add_argument("--training-texts", type=int, default=None, metavar="N", help="draw about so many [all]")
    parser.add_argument("--shuffle-words", action="store_true", help="the words of every text in random order")
    options = parser.parse_args(argv)
    if options.training_texts is not None and options.training_texts < 1:
        raise UsageError(f"--training-texts: must be at least 1, got {options.training_texts}")
    parts = parts_of(options.dataset, options.source, options.training_texts)
    if options.shuffle_words:
        parts = shuffled(parts)
    for split in SPLITS:
        rows = parts[split]
        lines = (json.dumps({"label": label, "text": text}, ensure_ascii=False) + "\n" for label, text in rows)
        write_text(options.target / f"{split}.jsonl", "".join(lines))
        lengths = np.array([len(text.split()) for _, text in rows])
        print(
            f"{split}: {len(rows):,} texts, {len({label for label, _ in rows})} labels, words: median "
            f"{np.median(lengths):,.0f}, 90 % {np.quantile(lengths, 0.9):,.0f}, most {lengths.max():,}"
        )


if __name__ == "__main__":
    sys.exit(cli.run("make_data.py", body))
