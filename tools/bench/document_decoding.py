"""Processor time of beam search in documents, of each architecture against the first.

    python tools/bench/document_decoding.py [--arch NAME[:OPTION=VALUE …] …] [--sentences 60 240 960] [--documents 1]

The models are untrained and end no sentence before its limit. Architectures take turns; encoding is left out.
With own text, as in `cond_transformer_small:target_context=conditional`, a document's sentences are written one after
the other, so several documents are needed to fill a batch.
"""

from __future__ import annotations

import argparse
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import yaml

from docnmt.core.batch import PackedText
from docnmt.core.data.tokenizer import BRK, EOS
from docnmt.core.search.beam_search import BeamSearch
from docnmt.core.search.config import BeamSearchConfig
from docnmt.core.search.hypothesis import Slot
from docnmt.core.search.scheduler import REFILL
from docnmt.layout import DocumentLayout
from docnmt.registry import (
    ARCHITECTURES,
    MODELS,
    builtin,  # noqa: F401
)
from docnmt.runtime.tuning import tune

VOCABULARY = 8000


def build(name: str) -> Any:
    """The model of `ARCH:OPTION=VALUE:…`."""
    arch, *changes = name.split(":")
    values = {key: yaml.safe_load(value) for key, _, value in (change.partition("=") for change in changes)}
    architecture = ARCHITECTURES.get(arch)
    task = SimpleNamespace(source_vocabulary_size=VOCABULARY, target_vocabulary_size=VOCABULARY, joined=True)
    config = MODELS.config(architecture.model)(**{**architecture.overrides(), **values})
    return MODELS.get(architecture.model).build(config, task).eval()


def source_text(documents: int, rng: np.random.Generator, sentences: int) -> PackedText:
    """Random documents."""
    lengths = rng.integers(5, 41, size=(documents, sentences))
    layout = DocumentLayout.from_lengths(lengths.tolist())
    positions = torch.full((layout.num_tokens, 4), -1)
    positions[:, 0] = torch.arange(layout.num_tokens) - layout.sentence_offsets[layout.sentence_of_token]
    positions[:, 1] = layout.sentence_of_token % sentences
    return PackedText(torch.from_numpy(rng.integers(BRK + 2, VOCABULARY, layout.num_tokens)), layout, positions)


@torch.inference_mode()
def seconds_of(model: Any, source: PackedText, slots: list[Slot], beam: int, batch: int) -> float:
    """Processor time of writing all slots. A model that reads its own text writes a document's one after the other."""
    first_of = source.layout.document_offsets[source.layout.document_of_sentence].tolist()
    by_number, written, own = {slot.number: slot for slot in slots}, dict[int, Any](), model.reading.own_text
    waiting = [by_number[first] for first in dict.fromkeys(first_of)][::-1] if own else slots[::-1]
    memory, search, state = model.encode(source), BeamSearch(BeamSearchConfig(beam=beam)), None
    start = time.process_time()
    while waiting or search.slots:
        room = batch - len(search.slots)
        if waiting and (room >= -(-batch // REFILL) or not search.slots):
            entering = [waiting.pop() for _ in range(min(room, len(waiting)))]
            numbers = [slot.number for slot in entering]
            earlier = [[written[each] for each in range(first_of[number], number)] for number in numbers] if own else ()
            fresh = model.begin(memory, torch.tensor(numbers), beam, earlier)
            if state is None or not search.slots:
                state = fresh
            else:
                state.append(fresh)
            search.admit(entering)
        logits = model.step(search.tokens, state)
        logits[:, EOS] -= 100.0
        advance = search.advance(logits)
        if advance.rows is not None:
            state.reorder(advance.rows)
        for slot, found in advance.finished if own else ():
            written[slot.number] = model.remember(memory, slot.number, found[0].tokens[:-1])
            after = slot.number + 1
            if after < len(first_of) and first_of[after] < after:
                waiting.append(by_number[after])
    return time.process_time() - start


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", default=["transformer_small", "hier_cond_transformer_small"])
    parser.add_argument("--sentences", nargs="+", type=int, default=[60, 240, 960], help="of each document")
    parser.add_argument("--documents", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(tune())
    models = [build(arch) for arch in options.arch]
    for sentences in options.sentences:
        rng = np.random.default_rng(0)
        source = source_text(options.documents, rng, sentences)
        lengths = source.layout.sentences.lengths
        limits = np.maximum(lengths * rng.uniform(0.6, 1.4, len(lengths)), 2).astype(int)
        slots = [Slot(int(n), (int(limits[n]),)) for n in np.argsort(-lengths, kind="stable")]
        turns = [
            [seconds_of(model, source, slots, options.beam, options.batch_size) for model in models]
            for _ in range(options.repeats)
        ]
        seconds = np.array(turns)  # (repeats, architectures)
        ratios = seconds / seconds[:, :1]
        for arch, taken, ratio in zip(options.arch, seconds.T, ratios.T, strict=True):
            spread = f"{np.median(ratio):.2f} times the first ({ratio.min():.2f} to {ratio.max():.2f})"
            print(
                f"{len(slots):5} sentences  {arch:<28} {len(slots) / taken.min():6.1f} a second, {spread}", flush=True
            )


if __name__ == "__main__":
    main()
