"""Sentences a second of beam search: slots that are refilled as they end, against batches that wait for their slowest.

    python tools/bench/generation.py [--arch transformer_small hier_cond_transformer_small] [--batch-size 1 16 64]

An untrained model translates random documents of 20 sentences of 5 to 40 subwords; translations are as long as their
source times 0.6 to 1.4, and one in twenty runs on to three times that. Ways take turns; the best of the repeats counts.
Rates are by processor time, which neighbours on the machine disturb less. `search` is the share outside the model's own
steps: choosing tokens, reordering and joining states.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from docnmt.core.search.decode import decode
from torch import Tensor

from docnmt.core.batch import PackedText
from docnmt.core.data.tokenizer import BRK, EOS
from docnmt.core.search.beam_search import BeamSearch
from docnmt.core.search.config import BeamSearchConfig
from docnmt.core.search.hypothesis import Hypothesis, Slot
from docnmt.layout import DocumentLayout
from docnmt.registry import (
    ARCHITECTURES,
    MODELS,
    builtin,  # noqa: F401
)
from docnmt.runtime.tuning import tune

VOCABULARY = 8000


@dataclass
class Timing:
    """Seconds of one way of decoding: all of it, and inside the model's steps."""

    total: float = float("inf")
    inside: float = 0.0


def build(arch: str, **changes: object) -> Any:
    """An untrained model that ends no sentence before its limit."""
    architecture = ARCHITECTURES.get(arch)
    task = SimpleNamespace(source_vocabulary_size=VOCABULARY, target_vocabulary_size=VOCABULARY, joined=True)
    config = MODELS.config(architecture.model)(**{**architecture.overrides(), **changes})
    return MODELS.get(architecture.model).build(config, task).eval()


def source_text(documents: int, rng: np.random.Generator, sentences: int = 20) -> PackedText:
    """Random documents."""
    lengths = rng.integers(5, 41, size=(documents, sentences))
    layout = DocumentLayout.from_lengths(lengths.tolist())
    positions = torch.full((layout.num_tokens, 4), -1)
    positions[:, 0] = torch.arange(layout.num_tokens) - layout.sentence_offsets[layout.sentence_of_token]
    positions[:, 1] = layout.sentence_of_token % sentences
    return PackedText(torch.from_numpy(rng.integers(BRK + 2, VOCABULARY, layout.num_tokens)), layout, positions)


def chunks(slots: list[Slot], size: int | None) -> Iterator[list[Slot]]:
    """All slots, or one batch after the other."""
    for first in range(0, len(slots), size or len(slots)):
        yield slots[first : first + (size or len(slots))]


def measure(model: Any, source: PackedText, slots: list[Slot], beam: int, batch: int, wait: bool = False) -> Timing:
    """Translate everything once. A model that reads its own text writes a document's sentences one after the other."""
    timing = Timing(0.0)
    first_of = source.layout.document_offsets[source.layout.document_of_sentence].tolist()
    by_number = {slot.number: slot for slot in slots}
    written: dict[int, Any] = {}

    def step(tokens: Tensor, state: Any) -> Tensor:
        start = time.process_time()
        logits: Tensor = model.step(tokens, state)
        logits[:, EOS] -= 100.0
        timing.inside += time.process_time() - start
        return logits

    def begin(entering: Any) -> Any:
        numbers = [slot.number for slot in entering]
        earlier = [[written[each] for each in range(first_of[number], number)] for number in numbers] if own else ()
        return model.begin(memory, torch.tensor(numbers), beam, earlier)

    def following(slot: Slot, found: list[Hypothesis]) -> list[Slot]:
        written[slot.number] = model.remember(memory, slot.number, found[0].tokens[:-1])
        after = slot.number + 1
        return [by_number[after]] if after < len(first_of) and first_of[after] < after else []

    own = model.reading.own_text
    if own:
        slots = [by_number[first] for first in dict.fromkeys(first_of)]

    with torch.inference_mode():
        memory = model.encode(source)
        start = time.process_time()
        for part in chunks(slots, batch if wait else None):
            search = BeamSearch(BeamSearchConfig(beam=beam))
            for _ in decode(step, begin, search, part, capacity=batch, following=following if own else None):
                pass
        timing.total = time.process_time() - start
    return timing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", default=["transformer_small"])
    parser.add_argument("--batch-size", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--documents", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(tune())
    print(f"{'arch':<28} {'batch':>5} {'refill':>9} {'wait':>9} {'ratio':>6} {'search':>7}   (sentences/s)")
    for arch in options.arch:
        rng = np.random.default_rng(0)
        model, source = build(arch), source_text(options.documents, rng)
        lengths = source.layout.sentences.lengths
        runaways = np.where(rng.random(len(lengths)) < 0.05, 3.0, 1.0)
        limits = np.maximum(lengths * rng.uniform(0.6, 1.4, len(lengths)) * runaways, 2).astype(int)
        slots = [Slot(int(n), (int(limits[n]),)) for n in np.argsort(-lengths, kind="stable")]
        ways = [(batch, wait) for batch in options.batch_size for wait in (False, True)]
        best = {way: Timing() for way in ways}
        for _ in range(options.repeats):
            for batch, wait in ways:
                timing = measure(model, source, slots, options.beam, batch, wait)
                best[batch, wait] = min(best[batch, wait], timing, key=lambda t: t.total)
        for batch in options.batch_size:
            refill, waiting = best[batch, False], best[batch, True]
            fast, slow = (len(slots) / timing.total for timing in (refill, waiting))
            share = 100 * (1 - refill.inside / refill.total)
            print(f"{arch:<28} {batch:5} {fast:9.1f} {slow:9.1f} {fast / slow:6.2f} {share:6.0f}%")


if __name__ == "__main__":
    main()
