"""What opening a data folder costs, of ten thousand sentences and of ten million.

    python recipes/studies/scale/corpus.py [--sentences 10000 10000000]

Writes synthetic folders of both sizes (streaming, about 1.8 GB for ten million sentences, removed afterwards), opens
each in a fresh process, reads one sentence and prints the time and the memory that opening took, without checksums
(--skip-checksums) and with them, which reads all of a folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from docnmt.core.corpus import SplitFolder, Structure, write_meta
from docnmt.runtime.progress import Progress

CHUNK, VOCABULARY = 1 << 18, 32_000
WORDS, DOCUMENT = 12, 40  # subwords a sentence and sentences a document, in the mean

OPEN = """
import resource, sys, time
from pathlib import Path
from docnmt.runtime.system import skipped
from docnmt.core.corpus import ParallelCorpus
def resident():  # MB of this process, pages of mapped files that were touched included
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
before, start = resident(), time.perf_counter()
with skipped(sys.argv[2] == "skip"):
    corpus = ParallelCorpus.open(Path(sys.argv[1]), "train")
opened = time.perf_counter() - start
last = corpus.num_sentences - 1
corpus.source[last], corpus.source_text[last], corpus.levels[last]
read = time.perf_counter() - start - opened
print(corpus.num_sentences, corpus.num_documents, opened * 1e3, read * 1e3, resident() - before)
"""


def write_folder(folder: Path, sentences: int) -> None:
    """A data folder of random sentences, in constant memory but for the structure."""
    draw = np.random.default_rng(0)
    files: dict[str, dict[str, Any]] = {}
    split = SplitFolder(folder, "train", files)
    for side in ("en", "de"):
        writers = split.writer(f"{side}.tokens", "<u2"), split.writer(f"{side}.text", "u1")
        with writers[0] as tokens, writers[1] as text, Progress(sentences, f"writing {side}", unit="sentences") as bar:
            for first in range(0, sentences, CHUNK):
                lengths = draw.integers(1, 2 * WORDS, min(CHUNK, sentences - first))
                tokens.append(draw.integers(5, VOCABULARY, int(lengths.sum())), lengths)
                text.append(draw.integers(97, 123, int(4 * lengths.sum()), dtype=np.uint8), 4 * lengths)
                bar.update(len(lengths))
    begins = np.arange(0, sentences, DOCUMENT)
    levels = np.stack([np.arange(sentences) % DOCUMENT // size for size in (10, 3)], axis=1)
    blank = np.ones(len(begins) + 1)
    split.write_structure(Structure(np.append(begins, sentences), blank, levels))
    counts: dict[str, Any] = {
        "references": 1,
        "sentences": sentences,
        "documents": len(begins),
        "levels": levels.shape[1],
    }
    counts |= {"lengths": {}, "inputs": {}, "notes": []}
    sides = dict.fromkeys(("source", "target"), "tokenizer.model")  # not there: opening a split does not read it
    write_meta(
        folder, task="document_translation", files=files, source_lang="en", target_lang="de", splits={"train": counts},
        tokenizers=sides, vocabulary={**dict.fromkeys(sides, VOCABULARY), "joined": True}, options={},
    )  # fmt: skip


def measure(sentences: int) -> list[list[float]]:
    """Without checksums and with them: sentences, documents, ms to open, ms to read one sentence, MB of memory, of the
    folder; the fastest of three openings."""
    with tempfile.TemporaryDirectory(prefix="docnmt-bench-") as name:
        write_folder(Path(name), sentences)
        size = sum(file.stat().st_size for file in Path(name).iterdir()) / 1e6
        return [[*_opened(name, how), size] for how in ("skip", "compare")]


def _opened(folder: str, how: str) -> list[float]:
    command = [sys.executable, "-c", OPEN, folder, how]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(3)]
    return min(([float(value) for value in run] for run in runs), key=lambda run: run[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, nargs="+", default=[10_000, 10_000_000])
    heads = {"sentences": 12, "documents": 12, "folder MB": 12, "checksums": 12, "open ms": 10, "read ms": 10}
    print("".join(f"{head:>{width}}" for head, width in heads.items()) + f"{'resident MB':>13}")
    for sentences in parser.parse_args().sentences:
        for how, values in zip(("skipped", "compared"), measure(sentences), strict=True):
            count, documents, opened, read, memory, size = values
            print(
                f"{count:>12,.0f}{documents:>12,.0f}{size:>12,.0f}{how:>12}{opened:>10.1f}{read:>10.1f}{memory:>13.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
