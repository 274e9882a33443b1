"""The memory check: estimate the least memory a translation needs and refuse, beforehand, what cannot fit."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from docnmt.core.batch import source_costs
from docnmt.core.models.encoder_decoder import AnyTranslationModel
from docnmt.core.search.scheduler import Job
from docnmt.modules.context_sublayers import DecoderContext
from docnmt.modules.layers import FeedForward
from docnmt.modules.softmax_attention import CrossAttention, SelfAttention
from docnmt.registry.registry import GENERATORS
from docnmt.runtime.errors import UserError, printable
from docnmt.runtime.launch import obtainable_memory

#: Texts longer than this many subwords get a warning that softmax attention takes quadratic time.
LONG_TEXT = 4_000


@dataclass(frozen=True)
class Need:
    """The memory that a model needs for the longest of its units.

    Attributes:
        memory: bytes, at the least. unit: name of the unit in messages.
    """

    memory: int
    unit: str

    @classmethod
    def of(cls, job: Job, number: int) -> Need:
        """Estimate the need of model `number` of a job."""
        model, plan, units = job.ensemble.models[number], job.plans[number], job.units[number]
        costs = source_costs(job.corpus, units)
        longest = int(costs.argmax())
        first, last = int(units.first[longest]), int(units.last[longest])
        written = int(job.lengths[first:last].sum()) if plan.joined else 0
        width = GENERATORS.get(job.options.generator)(job.search, job.device).width
        return cls(
            least_memory(model, int(costs[longest]), written, width),
            _named(job, plan.noun, first, int(costs[longest])),
        )


def check_memory(job: Job) -> None:
    """Refuse a document, before anything is translated, whose translation must run out of memory; warn on stderr of a
    text so long that its quadratic time matters.

    Raises:
        UserError: naming the document, the least memory it needs, and the memory available.
    """
    if not job.corpus.num_sentences:
        return
    needs = [Need.of(job, number) for number in range(len(job.plans))]
    least, had = sum(need.memory for need in needs), memory_on(job.device)
    parts = "--context-window N takes it in parts" if job.plans[0].whole_documents else "divide it"
    if had is not None and least > had:
        unit = max(needs, key=lambda need: need.memory).unit
        raise UserError(
            f"{unit} takes at least {least / 1e9:,.1f} GB of memory, and {had / 1e9:,.1f} can be had on {job.device}; "
            f"{parts}"
        )
    length, first = longest_text(job)
    if length > LONG_TEXT and any(map(_of_row, job.ensemble.models)):
        parts = parts if job.plans[0].joined else "divide it"
        text = _named(job, "text", first, length)
        print(f"warning: {text} is written at once, which takes quadratic time; {parts}", file=sys.stderr)


def longest_text(job: Job) -> tuple[int, int]:
    """Return the number of source subwords of the longest text to be written, and its first sentence."""
    firsts, kept = job.texts.T
    total = np.concatenate([[0], np.cumsum(job.lengths)])
    lengths = total[np.append(kept, len(job.lengths))[1:]] - total[firsts]
    longest = int(lengths.argmax())
    return int(lengths[longest]), int(firsts[longest])


def _named(job: Job, noun: str, first: int, length: int) -> str:
    """Return a unit's name for messages: `the document that begins with 'Once upon', 900 subwords,`."""
    texts = job.corpus.source_text  # empty if a memory's sentences are among them
    begins = f"'{printable(texts[first][:40])}'" if len(texts) else f"sentence {first + 1:,}"
    return f"the {noun} that begins with {begins}, {length:,} subwords,"


def least_memory(model: AnyTranslationModel, read: int, written: int, beam: int) -> int:
    """Return the bytes that a model needs at the least for a unit, besides the process itself and copies.

    Encoding holds the feed-forward layer's inner activations twice; decoding holds the keys and values of every decoder
    layer: those of all source words, and each hypothesis's own, for a text as long as the source.

    Args:
        read: source subwords of the unit. written: source subwords of the sentences that are written as one text; 0 if
            sentences are written one by one. beam: number of hypotheses.
    """
    if not isinstance(model, nn.Module):  # a plug-in's own
        return 0
    inner = max((m.inner.out_features for m in model.modules() if isinstance(m, FeedForward)), default=0)
    cross = sum(2 * m.heads * m.d_head for m in model.modules() if isinstance(m, CrossAttention))
    attentions = [m.attention for m in model.modules() if isinstance(m, DecoderContext)]
    cross += sum(2 * a.heads * a.d_head for a in attentions if a.policy is not None)  # others keep summaries only
    size = next(model.parameters()).element_size()
    return size * max(2 * inner * read, cross * read + _of_row(model) * beam * written)


def _of_row(model: AnyTranslationModel) -> int:
    """Return how many numbers the decoder's softmax self-attention keeps for each written word."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    return sum(2 * m.heads * m.d_head for m in modules if isinstance(m, SelfAttention) and m.causal)


def memory_on(device: torch.device) -> int | None:
    """Return the bytes that this process can have on a device in all; None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device))
    return obtainable_memory() if device.type == "cpu" else None
