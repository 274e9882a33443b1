"""Show the six weaknesses of the published study on our own model, and that ours does not have them. No training.

Usage: weaknesses.py [--tables tables/novels33]

With --tables (of make_data.py) also what counting words in the test texts changes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from paired import permutation_p
from power import detectable_effect
from published import PUBLISHED, TABLE_1_SD
from scipy_stats import stats
from tables import markdown

from docnmt.cli import command as cli
from docnmt.core.batch import plan_batches
from docnmt.other_tasks import classification as fusion_classifier
from docnmt.other_tasks.classification import FusionClassifier, WordVocabulary, random_stream, read_labelled
from docnmt.other_tasks.options import FusionClassifierConfig
from docnmt.registry import FUSIONS

TASK = SimpleNamespace(vocabulary_size=2_000, labels=("",) * 11)
BASE = FusionClassifierConfig(encoder_layers=2, embed_dim=128, ffn_dim=256, embedding_std=1.0)  # as the ArXiv notebook
SHARED = ("embedding.tokens.", "layers.", "output.")
Stream = Callable[[str], AbstractContextManager[None]]


def build(config: FusionClassifierConfig, stream: Stream = random_stream) -> Any:
    """A model of seed 0, its random numbers from `stream`."""
    torch.manual_seed(0)
    with patch.object(fusion_classifier, "random_stream", stream):
        return FusionClassifier.build(config, TASK).eval()


def families() -> str:
    """1. Two of the four families are other names for the other two."""
    places = torch.arange(512)[:, None].expand(-1, 4)
    tables = {name: build(replace(BASE, position=name)).embedding.position(places) for name in
              ("sinusoidal", "rope_input", "learned", "relative_input")}  # fmt: skip
    half = BASE.embed_dim // 2
    order = torch.stack([torch.arange(half), torch.arange(half, 2 * half)], dim=1).flatten()
    permuted = (tables["rope_input"][:, order] - tables["sinusoidal"]).abs().max().item()
    same = torch.equal(tables["learned"], tables["relative_input"])
    return (
        "The notebooks' RoPE is the sinusoidal table with its features in another order: largest difference after "
        f"reordering {permuted:.1g}. Their relative positions are a learned table: equal to `learned` bit by bit: "
        f"{same}. Ours act inside attention (`rope`, `relative`, `alibi`) and have nothing to fuse: every operator but "
        "the default is refused, and that one does nothing."
    )


def pairing() -> str:
    """2. One seed is no pair when every component draws from one stream."""

    def shared(stream: Stream) -> tuple[int, int]:
        models = [build(replace(BASE, position_fusion=f), stream).state_dict() for f in ("add", "gate_mlp")]
        names = [name for name in models[0] if name.startswith(SHARED)]
        return sum(torch.equal(models[0][n], models[1][n]) for n in names), len(names)

    (ours, of), (theirs, _) = shared(random_stream), shared(lambda name: nullcontext())
    batches = [
        np.concatenate(plan_batches(np.ones(756, dtype=int), 2, seed=0, epoch=1, shuffle=True)) for _ in range(2)
    ]
    loader = torch.Generator().manual_seed(0)
    orders = [torch.randperm(756, generator=loader) for _ in range(2)]
    return (
        f"Under one seed `add` and `gate_mlp` share {ours} of {of} initial tensors of encoder, embedding and output "
        f"with a stream for each component, {theirs} with one stream for all (some begin constant). The order of the "
        "data is the same where it follows from seed and epoch, and where one shuffling loader serves one variant "
        f"after the other, as in the ArXiv notebook: {np.array_equal(*batches)} and {torch.equal(*orders)}."
    )


@torch.no_grad()
def variance(words: int = 64, places: int = 1024) -> str:
    """3. With E·√d hardly anything of the first layer's input varies with the position."""
    settings = {"E·√d": BASE, "E": replace(BASE, scale_embeddings=False)}
    position = torch.arange(places)[:, None].expand(-1, 4).repeat(words, 1)
    tokens = torch.arange(words).repeat_interleave(places)
    offsets = torch.arange(words + 1) * places
    rows = []
    for name in FUSIONS.names():
        row = [name]
        for config in settings.values():
            embedding = build(replace(config, position_fusion=name)).embedding
            row.append(f"{100 * place_share(embedding(tokens, position, offsets).view(words, places, -1)):.2f} %")
        rows.append(row)
    text = (
        "Share of the variance of the first layer's input that goes with the position, at the start (width "
        f"{BASE.embed_dim}, {words} words in each of {places:,} places):\n\n"
    )
    return text + markdown(["operator", *settings], rows)


def place_share(h: torch.Tensor) -> float:
    """Of h (words, places, d), every word in every place: the places' part of the variance, summed over features.

    The variance of the places' means, less what the interaction of word and place adds to it.
    """
    h = h.double()
    of_place, of_word = h.mean(0, keepdim=True), h.mean(1, keepdim=True)
    interaction = (h - of_place - of_word + h.mean((0, 1))).square().mean()
    spread = of_place[0].var(0, correction=0).mean() - interaction / len(h)
    return float((spread / h.flatten(0, 1).var(0, correction=0).mean()).clamp(min=0))


def vocabulary(tables: Path) -> str:
    """4. Counting words in the test texts gives them entries of their own."""
    train, valid, test = (read_labelled(tables / f"{split}.jsonl").texts for split in ("train", "valid", "test"))
    counts = []
    for texts in (train, [*train, *valid, *test]):
        known = WordVocabulary.count(texts, size=50_000, min_frequency=2)
        tokens = np.array([token for line in known.encode(test) for token in line])
        counts.append(f"{known.vocab_size:,} entries, {100 * (tokens == 0).mean():.1f} % of the test tokens unknown")
    return f"From the training texts alone: {counts[0]}. From all texts: {counts[1]}."


def power() -> str:
    """5. What five seeds can show, and that the published deviations contradict each other."""
    arxiv = PUBLISHED["arxiv"]
    deviations = ", ".join(f"{name.partition('.')[2]} {sd} and {arxiv[name][1]}" for name, sd in TABLE_1_SD.items())
    (add, add_sd), (gate, gate_sd) = arxiv["sinusoidal.add"], arxiv["sinusoidal.gate_scalar"]
    welch = stats.ttest_ind_from_stats(gate, gate_sd, 5, add, add_sd, 5, equal_var=False).pvalue
    differences = ", ".join(f"{n} seeds {detectable_effect(n, 3.2):.1f}" for n in (3, 5, 10))
    least = ", ".join(f"{n} seeds {permutation_p(np.ones(n)):.3g}" for n in (3, 5, 10))
    return (
        f"Deviations of the same ArXiv means in Tables 1 and 3: {deviations}. With Table 3's, gate_scalar − add is "
        f"{gate - add:+.2f} (unpaired p {welch:.3f}). With the sd 3.2 of its differences a paired t-test finds, four "
        f"times of five, differences of (points): {differences}. The smallest two-sided p of the exact test: {least}."
    )


def body(argv: list[str]) -> None:
    """Parse and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--tables", type=Path, default=None, metavar="DIR", help="train, valid and test.jsonl")
    options = parser.parse_args(argv)
    parts = [families(), pairing(), variance()]
    parts.append("Needs --tables." if options.tables is None else vocabulary(options.tables))
    parts += [power(), "Latency: `latency.py` (fixed batch, no gradients, warm-up, turns in random order, quantiles)."]
    print("\n\n".join(f"{number}. {part}" for number, part in enumerate(parts, 1)))


if __name__ == "__main__":
    sys.exit(cli.run("weaknesses.py", body))
