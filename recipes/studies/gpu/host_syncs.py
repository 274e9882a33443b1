#!/usr/bin/env python
"""How often the host would wait for a GPU in an update or a step of decoding, and what it launches; no GPU is needed.

    python recipes/studies/gpu/host_syncs.py [--arch hier_cond_transformer_tiny …] [--lines] [--launches]
    python recipes/studies/gpu/host_syncs.py --arch transformer hier_cond_transformer --options="--bf16 \\
        --label-smoothing 0.1"
    python recipes/studies/gpu/host_syncs.py --search --arch transformer

Trains some updates of a toy corpus on a device that computes on the CPU and pretends to be a GPU (`pretended.py` says
what waits), and counts what the last one does: batch, forward and backward pass, clipping, step and log. `--lines`
names the lines of docnmt that wait, `--launches` the operations that are launched most often. With DOCNMT_GRAPHS=on and
`--updates 12`, the last update is one of graphs.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

os.environ.setdefault("TRITON_INTERPRET", "1")  # before a kernel is imported

from pretended import NAME, pretended

ARCHITECTURES = ("transformer", "doc", "hier", "cond", "hier_cond", "copy", "scaleformer", "concat")
WORDS = (
    "the", "a", "dog", "cat", "house", "tree", "sees", "finds", "old", "new", "in", "under", "and", "then", "it", "he",
    "they", "walks", "sleeps", "river",
)  # fmt: skip
#: Sentences of the documents of training: batches of short and of long ones attend by all ways.
LENGTHS = [3, 1, 40, 5, 60, 2, 150, 7, 9] * 3


def corpus(prefix: Path, lengths: Sequence[int], seed: int) -> None:
    """Documents of so many sentences; a translation is the source's words spelt backwards."""
    draw = random.Random(seed)
    lines: list[list[str]] = []
    for length in lengths:
        lines += [draw.choices(WORDS, k=draw.randint(1, 14)) for _ in range(length)] + [[]]
    for language, words in (("en", lines), ("de", [[word[::-1] for word in line] for line in lines])):
        text = "\n".join(" ".join(line) + "." * bool(line) for line in words[:-1])
        prefix.with_suffix("." + language).write_text(text + "\n", encoding="utf-8")


def prepare(folder: Path, lengths: Sequence[int] = LENGTHS) -> Path:
    """Documents of so many sentences as a data folder."""
    from docnmt.cli.preprocess import main

    corpus(folder / "train", lengths, 1)
    corpus(folder / "valid", [3, 4], 2)
    files = ["--trainpref", str(folder / "train"), "--validpref", str(folder / "valid")]
    if main(["-s", "en", "-t", "de", *files, "--destdir", str(folder / "data"), "--vocab-size", "60"]):
        sys.exit("error: docnmt-preprocess failed")
    return folder / "data"


class Update(NamedTuple):
    """What waits in an update and what is launched, by operation and line of docnmt."""

    waits: Counter[tuple[str, str]]
    launches: Counter[tuple[str, str]]


def count(
    data: Path, save_dir: Path, arch: str, options: Sequence[str] = (), *, kernels: bool = True, updates: int = 3
) -> Update:
    """The last of some updates; without `kernels` their results are zeros."""
    from docnmt.cli.train import main
    from docnmt.core.training import trainer

    ends: list[tuple[int, int]] = []
    with pretended(kernels=kernels) as counter:

        def take_step(*given: Any) -> Any:
            update = step(*given)
            ends.append((len(counter.found), len(counter.launched)))
            return update

        step = trainer.take_step
        with patch.object(trainer, "take_step", take_step):
            given = f"--max-tokens 2500 --max-update {updates} --disable-validation --log-interval 1".split()
            status = main([str(data), "--arch", arch, *given, *options, "--device", NAME, "--save-dir", str(save_dir)])
    if status or len(ends) != updates:
        raise RuntimeError(f"expected {updates} updates, got {len(ends)}")
    waits, launches = zip(*ends[-2:], strict=True)
    return Update(Counter(counter.found[slice(*waits)]), Counter(counter.launched[slice(*launches)]))


def count_step(data: Path, save_dir: Path, arch: str, options: Sequence[str] = ()) -> Update:
    """A step of beam search in the middle of a text, four texts at once; results of kernels are zeros."""
    from docnmt.cli.train import parse
    from docnmt.core.search import scheduler
    from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
    from docnmt.core.search.translate import translate_corpus
    from docnmt.core.training.start import prepare

    run = prepare(parse([str(data), "--arch", arch, *options, "--device", "cpu", "--save-dir", str(save_dir)]))
    begins: list[tuple[int, int]] = []
    with pretended(kernels=False) as counter:

        def take_step(*given: Any) -> Any:
            begins.append((len(counter.found), len(counter.launched)))
            return step(*given)

        step = scheduler.next_scores
        with patch.object(scheduler, "next_scores", take_step):
            model, search = run.model.eval().to(NAME), BeamSearchConfig(beam=4, max_len_a=0, max_len_b=12, min_len=12)
            corpus, at_once = run.task.corpus("valid"), GenerationConfig(batch_size=4)  # type: ignore[attr-defined]
            list(translate_corpus([model], run.task, corpus, at_once, search))  # type: ignore[list-item, arg-type]
    waits, launches = zip(*begins[7:9], strict=True)
    return Update(Counter(counter.found[slice(*waits)]), Counter(counter.launched[slice(*launches)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", default=[full_name(name) for name in ARCHITECTURES])
    parser.add_argument("--lines", action="store_true", help="also print the lines that wait")
    parser.add_argument("--launches", action="store_true", help="also print what is launched most often, and where")
    parser.add_argument("--search", action="store_true", help="a step of beam search instead of an update")
    parser.add_argument("--updates", type=int, default=3, help="so many are made [3]")
    parser.add_argument("--options", default="", help="further options of docnmt-train, in one string")
    arguments = parser.parse_args()
    counted = "a step of beam search" if arguments.search else "an update"
    print(f"| architecture | host waits {counted} | launches |\n| --- | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        with contextlib.redirect_stdout(nowhere):
            data = prepare(Path(folder))
        for number, arch in enumerate(arguments.arch):
            with contextlib.redirect_stdout(nowhere):
                options, save_dir = arguments.options.split(), Path(folder) / str(number)
                if arguments.search:
                    update = count_step(data, save_dir, arch, options)
                else:
                    update = count(data, save_dir, arch, options, kernels=False, updates=arguments.updates)
            print(f"| `{arch}` | {sum(update.waits.values())} | {sum(update.launches.values()):,} |", flush=True)
            tables = [update.waits] * arguments.lines + [update.launches] * arguments.launches
            for (what, where), times in itertools.chain.from_iterable(table.most_common(60) for table in tables):
                print(f"    {times:4} {what:32} {where}")


def full_name(short: str) -> str:
    """The smallest architecture of a family: `hier` → `hier_transformer_tiny`."""
    return f"{short}_tiny" if short in ("transformer", "scaleformer") else f"{short}_transformer_tiny"


if __name__ == "__main__":
    main()
