"""Ten million sentences, preprocessed piece by piece and by one run: seconds and memory.

    python recipes/studies/scale/preprocessing.py --corpus docmix/train -s en -t de --sentences 10000000 \\
        --pieces 10 --work DIR

The documents of the corpus (text with an empty line between documents) are taken again and again until there are so
many sentences; from the second time on, each sentence begins with the number of the time, so that no sentence is there
twice. The vocabulary is that of the first piece. DIR keeps the text; its folders are removed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

Document = tuple[list[str], ...]


def documents(corpus: str, languages: list[str]) -> Iterator[Document]:
    """The corpus, again and again."""
    texts = [Path(f"{corpus}.{language}").read_text(encoding="utf-8").strip("\n") for language in languages]
    sides = [[document.split("\n") for document in text.split("\n\n")] for text in texts]
    for time_ in itertools.count(1):
        for document in zip(*sides, strict=True):
            yield document if time_ == 1 else tuple([f"{time_} {line}" for line in side] for side in document)


def write(corpus: str, languages: list[str], sentences: int, prefixes: list[Path]) -> None:
    """Text of about so many sentences, a part of it in the files of each prefix."""
    endless = documents(corpus, languages)
    for prefix in prefixes:
        with contextlib.ExitStack() as stack:
            names = [f"{prefix}.{language}" for language in languages]
            files = [stack.enter_context(open(name, "w", encoding="utf-8")) for name in names]
            written = 0
            while written < sentences / len(prefixes):
                document = next(endless)
                for file, side in zip(files, document, strict=True):
                    file.write("\n".join(side) + "\n\n")
                written += len(document[0])


def run(what: str, *words: str) -> None:
    """One command and a row of the table: seconds, processor seconds, and peak memory of its largest process."""
    begun = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-m", "docnmt.cli.preprocess", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{what}: failed; by itself: docnmt-preprocess {' '.join(words)}")
    seconds, used = time.monotonic() - begun, usage.ru_utime + usage.ru_stime
    print(f"| {what} | {seconds:,.0f} | {used:,.0f} | {usage.ru_maxrss / 1024:,.0f} |", flush=True)


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, metavar="PREFIX")
    parser.add_argument("-s", required=True, metavar="LANG")
    parser.add_argument("-t", required=True, metavar="LANG")
    parser.add_argument("--sentences", type=int, default=10_000_000, help="[10,000,000]")
    parser.add_argument("--pieces", type=int, default=10, help="[10]")
    parser.add_argument("--workers", default="2", help="[2]")
    parser.add_argument("--work", type=Path, required=True, metavar="DIR")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    prefixes = [given.work / f"text-{number}" for number in range(given.pieces)]
    write(given.corpus, [given.s, given.t], given.sentences, prefixes)
    compare(given.work, prefixes, ["-s", given.s, "-t", given.t], ["--workers", given.workers])


def compare(work: Path, prefixes: list[Path], languages: list[str], workers: list[str]) -> None:
    """Pieces against one run."""
    folders = [work / f"piece-{number}" for number in range(len(prefixes))]
    vocabulary, one = work / "vocabulary", work / "one"
    for folder in (*folders, vocabulary, one):
        shutil.rmtree(folder, ignore_errors=True)
    print("| | seconds | processor seconds | largest process, MiB |\n| --- | ---: | ---: | ---: |", flush=True)
    every = [*languages, *workers, "--trainpref"]
    run("the first piece, with its vocabulary", *every, str(prefixes[0]), "--destdir", str(vocabulary))
    for prefix, folder in zip(prefixes, folders, strict=True):
        run(folder.name, *every, str(prefix), "--srcdict", str(vocabulary), "--destdir", str(folder))
    run("all in one run", *every, *map(str, prefixes), "--srcdict", str(vocabulary), "--destdir", str(one))
    size = sum(path.stat().st_size for path in one.iterdir()) / 1e9
    for folder in (*folders, vocabulary, one):
        shutil.rmtree(folder)
    print(f"\n{size:.2f} GB")


if __name__ == "__main__":
    main()
