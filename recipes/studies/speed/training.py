"""Training of one sentence model by docnmt and by other programs that are installed, on the same batches in turns.

    OMP_NUM_THREADS=1 python recipes/studies/speed/training.py [--width 512] [--subwords 3000] [--data data-bin]

Target subwords a second of processor time: docnmt's own updates (`docnmt-train`'s, from collecting a batch to the
optimizer's step) in float32 and bf16, Hugging Face's `MarianMTModel`, and PyTorch's `nn.Transformer` in a loop of its
own. Each works in a process of its own, with one thread. The floor is the time of an update's matrix products alone.
`hier_cond_transformer` of the same size trains on batches of whole documents. Without `--data` the text is made up.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from other_trainers import Sentences, hugging_face, plain, sentences_of
from peers import Apart, in_turns, installed, random_model, ratio, sentences, spread
from trainers import FULL, HALF, Size, docnmt, opened_run

from docnmt.cli.preprocess import main as preprocess
from docnmt.core.corpus import read_meta

OURS, DOCUMENTS, MARIAN, PLAIN = "docnmt", "docnmt hier_cond_transformer", "Hugging Face Marian", "nn.Transformer"
FLOORS = (f"products {FULL}", f"products {FULL}, oneDNN", f"products {HALF}")


def made_up(folder: Path, vocabulary: int, documents: int) -> str:
    """A data folder of documents of 20 sentences of 5 to 45 words; translations are as long."""
    random_model(folder / "vocabulary", vocabulary, 1, 64)
    lines = sentences(20 * documents, vocabulary, (5, 45), 1)
    for language, own in (("en", lines), ("de", [" ".join(reversed(line.split())) for line in lines])):
        parts = ["\n".join(own[first : first + 20]) for first in range(0, len(own), 20)]
        (folder / f"train.{language}").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    files = [f"--srcdict={folder / 'vocabulary'}", f"--trainpref={folder / 'train'}", f"--destdir={folder / 'data'}"]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        status = preprocess(["-s", "en", "-t", "de", *files])
    if status:
        raise RuntimeError("docnmt-preprocess failed")
    return str(folder / "data")


def opened(data: str, size: Size, subwords: int, batches: Sequence[Sentences]) -> dict[str, Apart]:
    """The programs that are there."""
    programs = {name: Apart(docnmt, data, arch, size, subwords) for name, arch in
                ((OURS, "transformer"), (DOCUMENTS, "hier_cond_transformer"))}  # fmt: skip
    if installed("transformers", MARIAN):
        programs[MARIAN] = Apart(hugging_face, size, batches)
    programs[PLAIN] = Apart(plain, size, batches)
    return programs


def ways(programs: dict[str, Apart], batches: Sequence[Sentences]) -> dict[str, Callable[[int], float]]:
    """Processor seconds a target subword of the batch of each round."""

    def update(name: str, kind: str, number: int) -> float:
        seconds, subwords = programs[name](kind, number)
        return float(seconds / subwords)

    def floor(name: str, number: int) -> float:
        source, target = (sum(map(len, side)) for side in batches[number % len(batches)])
        return programs[OURS](name, source, target)[0] / target

    updates = {f"{name}, {kind}": partial(update, name, kind) for name in programs for kind in (FULL, HALF)}
    return updates | {name: partial(floor, name) for name in FLOORS}


def report(taken: dict[str, list[float]], programs: dict[str, Apart], size: Size, batches: Sequence[Sentences]) -> None:
    """Print the tables."""
    others = [f"{name}, {FULL}" for name in programs if name in (MARIAN, PLAIN)]
    fastest = min(others, key=lambda name: float(np.median(taken[name])))
    print(f"| | subwords a second | speed by {fastest}'s |\n| --- | ---: | ---: |")
    for name, seconds in taken.items():
        rate = spread([1 / cost for cost in seconds], 0)
        print(f"| {name} | {rate} | {ratio(taken[fastest], seconds)} |")
    source, target = (sum(len(row) for batch in batches for row in batch[side]) for side in (0, 1))
    flops = sum(6 * rows * a * b for rows, a, b in size.products(source, target)) / target
    for name in FLOORS:
        print(f"\n{name}: {spread([flops / cost / 1e9 for cost in taken[name]], 0)} GFLOP/s", end="")
    print("\n")
    for kind, floor in ((FULL, FLOORS[0]), (HALF, FLOORS[2])):
        own = taken[f"{OURS}, {kind}"]
        print(f"- {OURS}'s time by that of its products, {kind}: {ratio(own, taken[floor])}")
        print(f"- {DOCUMENTS}'s time a subword by {OURS}'s, {kind}: {ratio(taken[f'{DOCUMENTS}, {kind}'], own)}")


def main() -> None:
    """Parse and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a folder of docnmt-preprocess with one vocabulary; no option: made-up text")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=3, help="of encoder and decoder each [3]")
    parser.add_argument("--vocabulary", type=int, default=8000, help="of made-up text [8000]")
    parser.add_argument("--documents", type=int, default=120, help="of made-up text, of 20 sentences each [120]")
    parser.add_argument("--subwords", type=int, default=3000, help="of the longer side of a batch, at most [3000]")
    parser.add_argument("--repeats", type=int, default=5, help="rounds, after one to warm up [5]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or made_up(Path(folder), options.vocabulary, options.documents)
        size = Size(read_meta(Path(data))["vocabulary"]["target"], options.width, options.layers)
        _, epoch = opened_run(data, "transformer", size, options.subwords)
        count = min(options.repeats + 1, len(epoch.plan))
        batches = [sentences_of(epoch.data.batch(units)) for units in epoch.plan[:count]]  # type: ignore[attr-defined]
        programs = opened(data, size, options.subwords, batches)
        try:
            report(in_turns(ways(programs, batches), options.repeats), programs, size, batches)
        finally:
            for program in programs.values():
                program.end()


if __name__ == "__main__":
    main()
