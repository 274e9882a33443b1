"""Documents of about one length, worked on together as a padded batch: what many short documents need to be fast."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from docnmt.layout import Spans

#: The longest document of a group is at most this many times as long as its shortest, short ones aside.
_SPREAD, _SHORT = 1.5, 48


@dataclass(frozen=True)
class Padded:
    """The spans of a group's documents side by side.

    Attributes:
        rows: (n, L) int64, row of the packed tensor; padding shows the last row of its own span, so that nothing of
            another document can enter.
        real: (n, L) bool, False at padding.
    """

    rows: Tensor
    real: Tensor

    def gather(self, x: Tensor) -> Tensor:
        """Packed rows (T, h, d) as (n, h, L, d)."""
        return x.index_select(0, self.rows.flatten()).view(*self.rows.shape, *x.shape[1:]).transpose(1, 2)


def document_groups(first: Spans, *others: Spans) -> list[tuple[Padded, ...]]:
    """All documents in groups; for each group the padded rows of every kind of span (tokens, sentences, nodes).

    Documents without a row of some kind are left out. Made once for these spans and kept with the first.
    """
    kinds = (first, *others)
    return first.derive(
        (document_groups, *others),
        lambda: [tuple(_pad(spans, members) for spans in kinds) for members in _members(kinds)],
    )


def _members(kinds: tuple[Spans, ...]) -> list[np.ndarray]:
    """Document numbers of each group: sorted by length, cut where a kind of span becomes too long for its group."""
    lengths = np.stack([spans.lengths for spans in kinds])  # (kinds, D)
    live = np.flatnonzero(lengths.min(axis=0, initial=1) > 0)
    order = live[np.argsort(lengths[:2, live].sum(axis=0), kind="stable")]
    groups: list[list[int]] = []
    low = high = np.zeros(len(kinds))
    for document in order:
        new_low, new_high = np.minimum(low, lengths[:, document]), np.maximum(high, lengths[:, document])
        if groups and bool((new_high <= np.maximum(_SPREAD * new_low, _SHORT)).all()):
            groups[-1].append(int(document))
            low, high = new_low, new_high
        else:
            groups.append([int(document)])
            low = high = lengths[:, document]
    return [np.array(group) for group in groups]


def _pad(spans: Spans, members: np.ndarray) -> Padded:
    lengths, starts = spans.lengths[members], spans.host[:-1][members]
    place = np.arange(int(lengths.max()))
    rows = starts[:, None] + np.minimum(place, lengths[:, None] - 1)
    device = spans.offsets.device
    return Padded(torch.from_numpy(rows).to(device), torch.from_numpy(place < lengths[:, None]).to(device))
