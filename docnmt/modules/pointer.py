"""The copy pointer: attention to the document's earlier translations, mixed with the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from docnmt.functional.loss import Copied
from docnmt.layout import DocumentLayout
from docnmt.modules.layers import DocumentPart, Note, OwnStart, taking_notes

# Scores of the copy pointer: similarities of a word's state to states of earlier sentences, and the copied labels.

#: Queries that the pointer compares at a time, at least.
COPY_QUERIES = 256
#: The similarity of hidden words; finite, so that rows which read nothing have gradients of 0 and not NaN.
NOTHING = -1e9


def similarities(q: Tensor, k: Tensor) -> Tensor:
    """Return −|q − k|² in float32 at least, for q (..., N, d), k (..., M, d): (..., N, M)."""
    precise = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        q, k = q.to(precise), k.to(precise)
        distances = q.square().sum(-1)[..., :, None] + k.square().sum(-1)[..., None, :] - 2 * torch.matmul(q, k.mT)
    return -distances


def copied_labels(
    q: Tensor, k: Tensor, labels: Tensor, layout: DocumentLayout, window: int
) -> tuple[Tensor, Tensor, Tensor]:
    """log p of each label (T,) under the pointer: softmax(−|q − k|²), q, k (T, d), over words of earlier sentences.

    A word reads the last `window` words before its sentence, in its own document. Each key votes for its own label,
    the token that followed it; negative ones are not copied.

    Returns:
        log p(label) under the pointer, the similarity of the nearest key, and the logarithm of the sum of all
        exponentials, (T,) each; `NOTHING` or less where there is nothing to read.
    """
    parts: list[Sequence[Tensor]] = [[similarities(q[:0], k[:0]).sum(1)] * 3]
    for rows, keys, scores in _scored(q, k, labels, layout, window):
        if not scores.shape[1]:
            parts.append([scores.sum(1) + NOTHING] * 3)
            continue
        same = scores.masked_fill(labels[keys] != labels[rows, None], NOTHING)
        total = scores.logsumexp(1)
        parts.append((same.logsumexp(1) - total, scores.amax(1), total))
    log_p, nearest, total = (torch.cat(column) for column in zip(*parts, strict=True))
    return log_p, nearest, total


def copied_values(q: Tensor, k: Tensor, values: Tensor, labels: Tensor, layout: DocumentLayout, window: int) -> Tensor:
    """Return the means of values (T, d) under the pointer's weights, (T, d); 0 where there is nothing to read."""
    parts = [values[:0]]
    for _, keys, scores in _scored(q, k, labels, layout, window):
        weights = scores.softmax(1).masked_fill(scores <= NOTHING / 2, 0)
        parts.append(weights.to(values.dtype) @ values[keys])
    return torch.cat(parts)


def _scored(
    q: Tensor, k: Tensor, labels: Tensor, layout: DocumentLayout, window: int
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Blocks of N query words in order, ranges of M key words, similarities (N, M); `NOTHING`: a word reads no key."""
    sentence, bounds = layout.sentence_of_token, layout.sentences.host
    starts = layout.sentence_offsets[:-1].index_select(0, sentence)  # (T,) where a word's own sentence begins
    for first, begin, end in _blocks(layout, window):
        stop = max(int(bounds[np.searchsorted(bounds, end) - 1]), first)  # where the last word's sentence begins
        rows, keys = slice(begin, end), slice(first, stop)
        index = torch.arange(keys.start, keys.stop, device=q.device)
        begin_of_own = starts[rows, None]  # (N, 1)
        read = (index < begin_of_own) & (index >= begin_of_own - window) & (labels[keys] >= 0)  # (N, M)
        yield rows, keys, similarities(q[rows], k[keys]).masked_fill(~read, NOTHING)


def _blocks(layout: DocumentLayout, window: int) -> Iterator[tuple[int, int, int]]:
    """(first word read, first query, end) of blocks of whole sentences, of `COPY_QUERIES` queries where there are."""
    sentences, documents = layout.sentences.host, layout.document_sentences.host
    for first, last in zip(documents[:-1].tolist(), documents[1:].tolist(), strict=True):
        begin = first
        for number in range(first + 1, last + 1):
            if number == last or sentences[number] - sentences[begin] >= COPY_QUERIES:
                start = max(int(sentences[first]), int(sentences[begin]) - window)
                if sentences[number] > sentences[begin]:
                    yield start, int(sentences[begin]), int(sentences[number])
                begin = number


# A pointer to the document's earlier translations: it copies the words that followed similar decoder states.

#: At the start, |q − k|² of two states whose features differ by 1 in each place: how sharp the pointer is.
SHARPNESS = 8.0


@dataclass(frozen=True, eq=False)
class CopyKeys:
    """A sentence that can be copied from: keys (n, d) and the tokens (n,) that followed."""

    keys: Tensor
    tokens: Tensor


class Pointer(nn.Module, OwnStart, DocumentPart):
    """p(word) = (1 − λ)·softmax(scores)(word) + λ·Σ softmax(−|q − k|²), the sum over earlier places where it followed.

    q and k are projections of the decoder's last features, λ a gate of the same features and of the best similarities.
    Pointer networks for summaries (See et al. 2017), a cache over one's own text (Grave et al. 2017; Tu et al. 2018, in
    translation), nearest neighbours in translation (Khandelwal et al. 2021), here with a learned distance and gate.

    Args:
        d_model: width of the features. window: target words before a sentence that it reads.
    """

    def __init__(self, *, d_model: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.gate = nn.Linear(d_model + 2, 1)
        self.opening = nn.Parameter(torch.tensor(0.05))  # a tenth of its effect: learned ten times faster

    def reset_parameters(self) -> None:
        """Start as a parameter-free cache: a scaled distance of features, and a gate driven by the nearest of them."""
        with torch.no_grad():
            nn.init.eye_(self.key.weight)
            self.key.weight *= (SHARPNESS / len(self.key.weight)) ** 0.5
            self.gate.weight.zero_()
            self.gate.weight[0, -2] = 0.75

    def start_closed(self) -> None:
        with torch.no_grad():
            self.opening.zero_()

    def share(self, features: Tensor, nearest: Tensor, total: Tensor) -> Tensor:
        """λ (T,), 0 where there is nothing to read."""
        read = nearest > NOTHING / 2
        nearest, above_nearest = (torch.where(read, x, 0.0) for x in (nearest, total - nearest))
        with torch.autocast(features.device.type, enabled=False):
            z = self.gate(torch.cat([features.to(nearest.dtype), nearest[:, None], above_nearest[:, None]], 1))[:, 0]
            opened = torch.sigmoid(z) * (10 * self.opening).clamp(0, 1)
        return torch.where(read, opened, 0.0)

    def forward(self, features: Tensor, labels: Tensor, layout: DocumentLayout) -> Copied:
        """Return the copied part of labels (T,), from features (T, d) of all words of the documents."""
        keys = self.key(features)
        log_probs, nearest, total = copied_labels(keys, keys, labels, layout, self.window)
        share = self.share(features, nearest, total)
        notes = taking_notes()
        if notes is not None:
            read = partial(copied_values, keys, keys, labels=labels, layout=layout, window=self.window)
            notes.append(Note(self, lambda values: read(values[:, 0])[:, None], features[:, None], share=share))
        return Copied(share, log_probs)

    def remember(self, features: Tensor, tokens: Tensor) -> CopyKeys:
        """Return the keys of a finished sentence, from its features (n, d) and the tokens (n,) that followed."""
        return CopyKeys(self.key(features), tokens)

    def step(self, features: Tensor, logits: Tensor, cache: Earlier) -> Tensor:
        """Return log p of the mixture, (R, V), in float32 at least, for features (R, d) and logits (R, V)."""
        log_probs = F.log_softmax(logits, dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
        if cache.longest == 0:
            return log_probs
        keys, tokens, real = cache.padded  # (N, M, d), (N, M), (N, M)
        beam = len(features) // len(keys)
        scores = similarities(self.key(features).view(len(keys), beam, -1), keys)
        scores = scores.masked_fill(~real[:, None], NOTHING)  # (N, beam, M)
        nearest, total = scores.amax(2).flatten(), scores.logsumexp(2).flatten()
        share = self.share(features, nearest, total)[:, None]
        places = tokens[:, None].expand(-1, beam, -1).flatten(0, 1)  # (R, M)
        weights = scores.softmax(2).flatten(0, 1).to(log_probs.dtype)
        copied = torch.zeros_like(log_probs).scatter_add_(1, places, weights)
        return torch.logaddexp(torch.log1p(-share) + log_probs, share.log() + copied.log())


class Earlier:
    """The earlier sentences, in order, from which each decoding slot can copy; `window`: their last so many words."""

    any_memory = True

    def __init__(self, slots: Sequence[Sequence[CopyKeys]], window: int) -> None:
        self.slots, self.window = list(slots), window
        self._padded: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def longest(self) -> int:
        return self.padded[1].shape[1] if any(self.slots) else 0

    @property
    def padded(self) -> tuple[Tensor, Tensor, Tensor]:
        """Keys (N, M, d), tokens (N, M), and which of them are real (N, M)."""
        if self._padded is None:
            any_text = next(part for slot in self.slots for part in slot)
            nothing = CopyKeys(any_text.keys[:0], any_text.tokens[:0])
            keys = [torch.cat([part.keys for part in (nothing, *slot)])[-self.window :] for slot in self.slots]
            tokens = [torch.cat([part.tokens for part in (nothing, *slot)])[-self.window :] for slot in self.slots]
            lengths = torch.tensor([len(text) for text in tokens], device=any_text.tokens.device)
            key, token = (nn.utils.rnn.pad_sequence(texts, batch_first=True) for texts in (keys, tokens))
            self._padded = key, token, torch.arange(token.shape[1], device=lengths.device) < lengths[:, None]
        return self._padded

    def keep(self, rows: Tensor, slots: Tensor | None) -> None:
        if slots is not None:
            self.slots, self._padded = [self.slots[n] for n in slots.tolist()], None

    def append(self, other: Earlier) -> None:
        self.slots, self._padded = [*self.slots, *other.slots], None
