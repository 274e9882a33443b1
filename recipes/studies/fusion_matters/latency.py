"""Latency of every operator: alone, and in the whole classifier (figure 4 and Table 2's column, measured).

Usage: latency.py recipes/studies/fusion_matters/novels33.yaml --repeats 30 [--output latency.json]

The model is that of the study's reference. One fixed batch of packed texts, no gradients, warm-up; the operators take
turns in every repeat, each time in another order, so that whatever else the machine does meets all of them alike.
Median and the 10 % and 90 % quantiles. report.py --latency puts what --output wrote beside accuracy.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from study import Study, read_study
from tables import markdown
from torch import Tensor

from docnmt.cli import command as cli
from docnmt.cli import train
from docnmt.core.batch import PackedText
from docnmt.layout import DocumentLayout
from docnmt.other_tasks.classification import FusionClassifier, TextBatch
from docnmt.other_tasks.options import FusionClassifierConfig
from docnmt.registry import FUSIONS
from docnmt.runtime.device import tune
from docnmt.runtime.system import UsageError, write_json

VOCABULARY, LABELS = 5_000, 33


def fixed_batch(tokens: int, length: int) -> TextBatch:
    """Texts of `length` random tokens, `tokens` in all."""
    generator = torch.Generator().manual_seed(0)
    count = max(1, tokens // length)
    places = torch.arange(length).repeat(count)
    positions = torch.stack([places, *torch.full((3, len(places)), -1)], dim=1)
    words = torch.randint(VOCABULARY, (len(places),), generator=generator)
    layout = DocumentLayout.from_lengths([[length]] * count)
    return TextBatch(PackedText(words, layout, positions), torch.zeros(count, dtype=torch.int64))


def measure(runs: dict[str, Callable[[], Tensor]], repeats: int, warmup: int) -> dict[str, list[float]]:
    """The 10 %, 50 % and 90 % quantiles of every run's milliseconds; the runs take turns in random order."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for repeat in range(warmup + repeats):
            for name in rng.permutation(list(runs)).tolist():
                started = time.perf_counter()
                runs[name]()
                if repeat >= warmup:
                    times[name].append(1000 * (time.perf_counter() - started))
    return {name: np.quantile(values, [0.1, 0.5, 0.9]).tolist() for name, values in times.items()}


def model_of(study: Study) -> FusionClassifierConfig:
    """The configuration of the reference's model."""
    words = ["data", "--task", "text_classification", "--save-dir", "run", *study.variants[study.reference]]
    config: FusionClassifierConfig = train.parse(words)["model"]
    return config


def latencies(config: FusionClassifierConfig, tokens: int, length: int, repeats: int, warmup: int) -> dict[str, Any]:
    """Quantiles in milliseconds of every operator, alone and in the whole model."""
    batch = fixed_batch(tokens, length)
    alone: dict[str, Callable[[], Tensor]] = {}
    whole: dict[str, Callable[[], Tensor]] = {}
    for name in FUSIONS.names():
        torch.manual_seed(0)
        task = SimpleNamespace(vocabulary_size=VOCABULARY, labels=("",) * LABELS)
        model: Any = FusionClassifier.build(replace(config, position_fusion=name), task).eval()
        with torch.no_grad():
            e = model.embedding.tokens(batch.text.tokens)
            p = model.embedding.position(batch.text.positions)
        alone[name] = partial(model.embedding.fusion, e, p, batch.text.layout.sentence_offsets)
        whole[name] = partial(model, batch)
    return {
        "layers": config.encoder_layers, "width": config.embed_dim, "tokens": len(batch.text.tokens),
        "length": length, "repeats": repeats,
        "threads": torch.get_num_threads(), "torch": torch.__version__,
        "alone": measure(alone, repeats, warmup), "whole": measure(whole, repeats, warmup),
    }  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """Median and quantiles of every operator, and the whole model's median relative to `add`."""
    reference = result["whole"]["add"][1]
    rows = []
    for name in result["alone"]:
        (a10, a50, a90), (w10, w50, w90) = result["alone"][name], result["whole"][name]
        rows.append(
            [name, f"{a50:.2f} ({a10:.2f}–{a90:.2f})", f"{w50:.1f} ({w10:.1f}–{w90:.1f})", f"{w50 / reference:.3f}"]
        )
    return markdown(["operator", "alone, ms (10–90 %)", "whole model, ms (10–90 %)", "median / add"], rows)


def body(argv: list[str]) -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("study", type=Path, metavar="STUDY.yaml")
    least = {"tokens": 1, "length": 1, "repeats": 1, "warmup": 0}
    for name, default, help in (
        ("tokens", 8192, "tokens of the batch"), ("length", 1024, "tokens of a text"), ("repeats", 30, "timed rounds"),
        ("warmup", 5, "rounds before them"),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{help} [{default}]")
    parser.add_argument("--output", type=Path, default=None, metavar="FILE.json", help="write the quantiles there, too")
    options = parser.parse_args(argv)
    if wrong := [f"--{name}: must be at least {n}" for name, n in least.items() if getattr(options, name) < n]:
        raise UsageError(wrong)
    config = model_of(read_study(options.study))
    tune()
    result = latencies(config, options.tokens, options.length, options.repeats, options.warmup)
    print(
        f"{result['layers']} layers of width {result['width']}, {result['tokens']:,} tokens in texts of "
        f"{result['length']:,}, {result['threads']} thread(s)"
    )
    print(table(result))
    if options.output is not None:
        write_json(options.output, result)


if __name__ == "__main__":
    sys.exit(cli.run("latency.py", body))
