"""Operations on tensors of all ranks: sum, gather, broadcast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, distributed

from docnmt.runtime.ranks.lost_ranks import why
from docnmt.runtime.ranks.rank import current, rank, world

#: Number of elements of the gradient that are sent together.
_BUCKET = 1 << 25


def sum_over_ranks(tensors: Sequence[Tensor]) -> None:
    """Replace each tensor by its sum over all ranks, with the same bits on each.

    Raises:
        UserError, Elsewhere: see `exchange`.
    """
    job = current()
    if job is None:
        return
    for bucket in _buckets(tensors):
        flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
        try:
            distributed.all_reduce(flat)
        except RuntimeError as error:
            raise why(job, error) from error
        parts = flat.split([tensor.numel() for tensor in bucket])
        for tensor, part in zip(bucket, parts, strict=True):
            tensor.copy_(part.view_as(tensor))


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield consecutive tensors of one type, up to a bucket's size together."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        full = sum(each.numel() for each in bucket) + tensor.numel() > _BUCKET
        if bucket and (full or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


def gather_rows(rows: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    """Return the rows of all ranks in the first rank, and nothing in the others.

    Args:
        rows: (n, columns) of this rank. counts: n of each rank; ranks beyond the last have none.

    Raises:
        UserError, Elsewhere: see `exchange`.
    """
    job = current()
    if job is None:
        return [rows]
    padded = torch.zeros(max(counts), rows.shape[1], dtype=torch.from_numpy(rows[:0]).dtype)
    padded[: len(rows)] = torch.from_numpy(rows)
    found = [torch.empty_like(padded) for _ in range(world())] if rank() == 0 else None
    try:
        distributed.gather(padded, found, dst=0)
    except RuntimeError as error:
        raise why(job, error) from error
    return [part.numpy()[:count] for part, count in zip(found or (), counts, strict=False)]


def same_everywhere(tensors: Sequence[Tensor]) -> None:
    """Replace each tensor by that of the first rank."""
    if current() is not None:
        for tensor in tensors:
            distributed.broadcast(tensor, 0)
