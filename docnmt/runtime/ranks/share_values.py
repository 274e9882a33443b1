"""Exchange of JSON values among all ranks, and shared work."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TypeVar, cast

import torch
from torch import distributed

from docnmt.runtime.errors import Terminated, UsageError, UserError
from docnmt.runtime.ranks.divide_work import deal
from docnmt.runtime.ranks.lost_ranks import why
from docnmt.runtime.ranks.rank import STOPS, Elsewhere, current, rank, stop, world

T = TypeVar("T")

#: Bytes of JSON that one collective operation carries; longer values need a second one.
_SHORT = 2048


def exchange(value: T) -> list[T]:
    """Return the JSON values of all ranks, by rank; numbers are exact.

    Raises:
        UserError: a rank is gone; the message names it.
        Elsewhere: a rank has failed, and reports it.
    """
    job = current()
    if job is None:
        return [value]
    assert not job.working, "an exchange inside shared work"
    data = json.dumps(value).encode()
    try:
        short = _gathered(len(data).to_bytes(8, "little") + data[:_SHORT], _SHORT + 8)
        lengths = [int.from_bytes(each[:8], "little") for each in short]
        found = [each[8:] for each in short] if max(lengths) <= _SHORT else _gathered(data, max(lengths))
    except RuntimeError as error:
        raise why(job, error) from error
    if job.launcher_gone:
        raise UserError(f"what launched this job is gone; {job.afterwards}")
    return [json.loads(each[:length]) for each, length in zip(found, lengths, strict=True)]


def _gathered(data: bytes, size: int) -> list[bytes]:
    """Gather `size` bytes of every rank."""
    own = torch.frombuffer(bytearray(data.ljust(size, b"\0")[:size]), dtype=torch.uint8)
    found = [torch.empty_like(own) for _ in range(world())]
    distributed.all_gather(found, own)
    return [bytes(each.numpy()) for each in found]


def share(work: Callable[[], T], *, alone: bool = True) -> list[T]:
    """Return the result of `work` on each rank, a JSON value; if it fails or is stopped on one, all ranks end.

    Args:
        alone: True if the ranks work independently; else they wait for each other inside, and one that fails just ends.

    Raises:
        UserError: this process failed; the message has its rank.
        Elsewhere: another process failed.
        Terminated, KeyboardInterrupt: a signal stopped one of them.
    """
    job = current()
    if job is None:
        return [work()]
    if not alone:
        return exchange(work())
    value, failed = None, None
    job.working += 1
    try:
        value = work()
    except (Exception, Terminated, KeyboardInterrupt) as error:
        failed = error
    finally:
        job.working -= 1
    kind = type(failed).__name__ if failed is not None else ""
    kinds = exchange((kind, isinstance(failed, UsageError), value))
    for kind, _, _ in kinds:
        if kind in STOPS:
            raise stop(kind)
    alike = all(kind for kind, _, _ in kinds)
    if isinstance(failed, UserError) and not isinstance(failed, UsageError) and not alike:
        raise UserError(f"rank {rank()}: {failed}") from failed
    if failed is not None:
        raise failed
    for kind, usage, _ in kinds:
        if kind:
            raise Elsewhere(2 if usage else 1)
    return [cast(T, each) for _, _, each in kinds]


def shared_out(costs: Sequence[int], work: Callable[[int], T]) -> list[T]:
    """Return `work` of every piece, a JSON value each, in order; each rank does a share, divided by cost.

    Raises:
        UserError, Elsewhere, Terminated, KeyboardInterrupt: see `share`.
    """
    mine = deal(costs, world())[rank()]
    shares = share(lambda: [(piece, work(piece)) for piece in mine])
    return [value for _, value in sorted((each for share in shares for each in share), key=itemgetter(0))]


def check_alike(values: Sequence[object], what: str) -> None:
    """Check that all ranks have the same value.

    Raises:
        UserError: they differ; the message names `what` and the ranks.
    """
    others = [str(n) for n, value in enumerate(values) if value != values[0]]
    if others:
        raise UserError(
            f"{what}: not the same in rank 0 and rank {', '.join(others)}; all machines need the same files, the same "
            "options and the same versions"
        )
