"""A small parallel corpus as files, made from a list of words: tests change it as they like."""

from __future__ import annotations

import random
from pathlib import Path

from docnmt.cli import preprocess
from docnmt.core.corpus import ParallelCorpus, Structure, StructureBuilder, unit_numbers
from docnmt.core.read_corpus import Facts, SplitFiles, read_split

TEXT = """letter bicycle lamp window garden river station market winter summer question answer teacher doctor carpet
neighbour orchestra newspaper telegram mountain harbour lighthouse journey kitchen breakfast umbrella photograph
remembers forgot listening wandered carefully quietly yesterday tomorrow beautiful dangerous ordinary Größe"""
WORDS = TEXT.split()


def documents(count: int, *, seed: int) -> list[list[str]]:
    """`count` documents of one to six sentences of one to nine words."""
    draw = random.Random(seed)
    return [
        [" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(draw.randint(1, 6))] for _ in range(count)
    ]


def translate(line: str) -> str:
    """The other side: the words backwards and in capitals."""
    return " ".join(reversed(line.upper().split()))


class ParallelText:
    """Splits train, dev and test as files in a folder, and the folder made of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        for seed, (split, count) in enumerate({"train": 60, "dev": 5, "test": 7}.items()):
            text = "\n\n".join("\n".join(document) for document in documents(count, seed=seed)) + "\n"
            self.path(f"{split}.en").write_text(text, encoding="utf-8", newline="")
            self.path(f"{split}.de").write_text("".join(translate(line) + "\n" for line in text.splitlines()))

    def path(self, name: str) -> Path:
        """A file of the corpus."""
        return self.folder / name

    def lines(self, name: str) -> list[str]:
        """A file's lines."""
        return self.path(name).read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def set_line(self, name: str, number: int, line: str) -> None:
        """Change line `number` (from 1) of a file."""
        lines = self.lines(name)
        lines[number - 1] = line
        self.path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")

    def arguments(self, *more: str, destdir: Path | None = None) -> list[str]:
        """A command line for the three splits."""
        prefixes = [f"--{option}pref={self.path(split)}" for option, split in _PREFIXES.items()]
        return ["-s", "en", "-t", "de", *prefixes, f"--destdir={destdir or self.data}", *more]

    def preprocess(self, *more: str, destdir: Path | None = None) -> int:
        """Run docnmt-preprocess on the three splits; the exit status."""
        return preprocess.main(self.arguments(*more, destdir=destdir))

    def corpus(self, split: str) -> ParallelCorpus:
        """A split of the folder that was made."""
        return ParallelCorpus.open(self.data, split)


_PREFIXES = {"train": "train", "valid": "dev", "test": "test"}


Read = tuple[list[tuple[str, ...]], Structure, Facts, list[str]]


def read_all(files: SplitFiles) -> Read:
    """The sentences of a split, their structure, the facts, and the names of its documents."""
    facts, builder = Facts(), StructureBuilder()
    texts, names = list[tuple[str, ...]](), list[str]()
    for document in read_split(files, facts):
        builder.before += document.blank
        if document.rows:
            levels = unit_numbers(document.units)
            builder.add(levels if document.known else levels * 0 - 1)
            texts += document.rows
            names.append(document.name)
    return texts, builder.build(known=facts.levels), facts, names if any(names) else []
