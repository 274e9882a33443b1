"""The ranks of a job: exchange of values, sums of tensors, ranks that end or freeze.

A process that was started by itself is the only rank; then nothing here costs anything.
a collective fails, or is not done in time ─ `_lost` calls the roll ─ one rank names those that do not answer, all end
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import itertools
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from docnmt.runtime import launch
from docnmt.runtime.system import HungUp, Terminated, UsageError, UserError

T = TypeVar("T")

#: The signals that stop all ranks, by name.
_STOPS: dict[str, type[BaseException]] = {kind.__name__: kind for kind in (Terminated, HungUp, KeyboardInterrupt)}
#: Minutes that a rank waits for another one: longer than one ever works alone.
_TIMEOUT = 30.0
#: Seconds in which a rank answers once communication has failed, and in which the rank that reports it ends first.
_PATIENCE, _FIRST = 5.0, 1.0
#: Number of elements of the gradient that are sent together.
_BUCKET = 1 << 25


@dataclass
class _RankState:
    """The state of a job of several processes, besides torch.distributed's own."""

    store: Store
    afterwards: str  # advice in messages after another process has ended the job
    working: int = 0  # how many pieces of shared work this rank does at the moment
    stopped: bool = False


_job: _RankState | None = None


class _Elsewhere(SystemExit):
    """Raised to end this process because another one failed, which prints the reason."""


def rank() -> int:
    """Return the number of this process."""
    return distributed.get_rank() if _job is not None else 0


def world() -> int:
    """Return the number of processes."""
    return distributed.get_world_size() if _job is not None else 1


def may_stop() -> bool:
    """Return True if this process may raise a signal here: it works alone, and the others will learn of it."""
    return _job is None or _job.working > 0


def stop(name: str) -> BaseException:
    """Return the signal that stops all ranks, which all of them know."""
    if _job is not None:
        _job.stopped = True
    return _STOPS[name]()


# Connecting and disconnecting the ranks of a job.


def timeout() -> timedelta:
    """Return the time that a rank waits for another one: DOCNMT_RANK_TIMEOUT, in minutes."""
    wish = os.environ.get("DOCNMT_RANK_TIMEOUT") or str(_TIMEOUT)
    try:
        minutes = float(wish)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes < math.inf:
        raise UsageError(f"DOCNMT_RANK_TIMEOUT={wish} in the environment: expected a number of minutes above 0")
    return timedelta(minutes=min(minutes, 60 * 24 * 365))


#: The jobs of this process, one after the other: `docnmt.train`, then `docnmt.generate`.
_numbers = itertools.count()


@functools.cache
def _store() -> Store:
    """Return the store in which the ranks meet, for all jobs of this process: its address is taken while one holds
    it."""
    store, _, _ = next(rendezvous("env://"))
    return cast(Store, store)


@contextlib.contextmanager
def joined(*, afterwards: str = "run the command again") -> Iterator[None]:
    """Connect to the other ranks, if any, inside the context. Only the first prints; an error is printed only once,
    with the advice `afterwards` if another process has ended the job."""
    global _job
    process = launch.job_process()
    if process.world == 1 or _job is not None:
        yield
        return
    os.environ.update(MASTER_ADDR=process.address, MASTER_PORT=str(process.port))
    os.environ.update(RANK=str(process.rank), WORLD_SIZE=str(process.world), LOCAL_RANK=str(process.local_rank))
    if torch.cuda.is_available():
        torch.cuda.set_device(process.local_rank)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    limit = timeout()
    try:
        store = PrefixStore(f"job/{next(_numbers)}", _store())  # what an earlier job left there is not found
        distributed.init_process_group(backend, store=store, rank=process.rank, world_size=process.world, timeout=limit)
    except (RuntimeError, ValueError) as error:
        where = f"{process.address}:{process.port}"
        raise UserError(
            f"rank {process.rank} of {process.world}: could not meet the others at {where}: {error}"
        ) from error
    job = _job = _RankState(PrefixStore("docnmt", store), afterwards)
    launch.set_connected()
    if process.rank:
        launch.mute()
    try:
        job.store.set(f"name/{process.rank}", f"{socket.gethostname()}, process {os.getpid()}")
        exchange(None)
        yield
        job.store.set(f"done/{process.rank}", "")
        if process.rank == 0:  # it may hold the store; the others need not wait for what it does alone
            _together(lambda: _wait_for_all(job, time.monotonic() + limit.total_seconds()))
    except (Exception, Terminated, KeyboardInterrupt) as error:
        reason = _reason(job, error)
        if reason is error:
            raise
        raise reason from error
    else:
        distributed.destroy_process_group()
    finally:
        _job = None


def _wait_for_all(job: _RankState, deadline: float) -> None:
    while not job.store.check([f"done/{n}" for n in range(world())]):
        if time.monotonic() > deadline:
            raise RuntimeError("a rank is not done")
        time.sleep(0.02)


# When communication fails: which ranks are lost, and which of the others reports it.


def _together(operation: Callable[[], T]) -> T:
    """Do what needs all ranks; if it fails, or takes too long, raise why."""
    try:
        return operation()
    except RuntimeError as error:
        assert _job is not None
        raise _lost(_job) or UserError(f"rank {rank()}: the ranks lost touch: {error}") from error


def _lost(job: _RankState) -> BaseException | None:
    """Call the roll: return an error that names who does not answer, or `_Elsewhere` if a rank has said why all end."""
    try:
        job.store.set(f"present/{rank()}", "")
        time.sleep(_PATIENCE)
        if job.store.add("reported", 0):
            return _Elsewhere(1)
        silent = [n for n in range(world()) if not job.store.check([f"present/{n}"])]
        names = [f"rank {n} ({job.store.get(f'name/{n}').decode()})" for n in silent]
    except RuntimeError:
        return UserError(f"the process that held this job together is gone; {job.afterwards}")
    if not silent:
        return None
    return UserError(
        f"{' and '.join(names)} of {world()} was killed, is lost, or was waited for too long "
        f"(DOCNMT_RANK_TIMEOUT={timeout() / timedelta(minutes=1):g} minutes); {job.afterwards}"
    )


def _reason(job: _RankState, error: BaseException) -> BaseException:
    """Return the error to end this process with: its own if no other rank has failed, else the reason of the others."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # first: once one has reported, the launcher stops all
    reason: BaseException = error
    if isinstance(error, (Terminated, KeyboardInterrupt)):
        stopped = None if job.stopped else _lost(job)  # a launcher stops all when it sees one end
        if stopped is None:
            return error
        reason = stopped
    elif isinstance(error, RuntimeError) and any(library in str(error).lower() for library in ("gloo", "nccl")):
        reason = _lost(job) or error  # a collective inside a model (--shard); PyTorch has no type for gloo's errors
    if isinstance(reason, _Elsewhere) or not _first_to_report(job):
        time.sleep(_FIRST)
        return _Elsewhere(2 if isinstance(error, UsageError) else 1)
    launch.unmute()
    return reason


def _first_to_report(job: _RankState) -> bool:
    """Return True if no other rank has reported yet why the job ends."""
    try:
        return bool(job.store.add("reported", 1) == 1)
    except RuntimeError:
        return True


# Tensors of all ranks: sum, gather, broadcast. Each raises what `exchange` does.


def sum_over_ranks(tensors: Sequence[Tensor]) -> None:
    """Replace each tensor by its sum over all ranks, with the same bits on each."""
    if _job is None:
        return
    for bucket in _buckets(tensors):
        flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
        _together(lambda flat=flat: distributed.all_reduce(flat))  # type: ignore[misc]
        parts = flat.split([tensor.numel() for tensor in bucket])
        for tensor, part in zip(bucket, parts, strict=True):
            tensor.copy_(part.view_as(tensor))


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield consecutive tensors of one type, up to a bucket's size together."""
    bucket: list[Tensor] = []
    for tensor in tensors:
        full = sum(other.numel() for other in bucket) + tensor.numel() > _BUCKET
        if bucket and (full or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(tensor)
    if bucket:
        yield bucket


def gather_rows(rows: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    """Return the rows (n, columns) of all ranks in the first rank, and nothing in the others; `counts` are n of each
    rank, and ranks beyond the last have none."""
    if _job is None:
        return [rows]
    padded = torch.zeros(max(counts), rows.shape[1], dtype=torch.from_numpy(rows[:0]).dtype)
    padded[: len(rows)] = torch.from_numpy(rows)
    parts = [torch.empty_like(padded) for _ in range(world())] if rank() == 0 else None
    _together(lambda: distributed.gather(padded, parts, dst=0))
    return [part.numpy()[:count] for part, count in zip(parts or (), counts, strict=False)]


def same_everywhere(tensors: Sequence[Tensor]) -> None:
    """Replace each tensor by that of the first rank."""
    if _job is not None:
        for tensor in tensors:
            distributed.broadcast(tensor, 0)


# Exchange of values among all ranks, and shared work.


def exchange(value: T) -> list[T]:
    """Return the values of all ranks, by rank; plain values, as JSON has them."""
    if _job is None:
        return [value]
    assert not _job.working, "an exchange inside shared work"
    values: list[Any] = [None] * world()
    _together(lambda: distributed.all_gather_object(values, value))
    return values


def share(work: Callable[[], T], *, alone: bool = True) -> list[T]:
    """Return the result of `work` on each rank; if it fails or is stopped on one, all ranks end. Unless they work
    `alone`, ranks wait for each other inside, and one that fails just ends."""
    job = _job
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
    results = exchange((kind, isinstance(failed, UsageError), value))
    for kind, _, _ in results:
        if kind in _STOPS:
            raise stop(kind)
    alike = all(kind for kind, _, _ in results)
    if isinstance(failed, UserError) and not isinstance(failed, UsageError) and not alike:
        raise UserError(f"rank {rank()}: {failed}") from failed
    if failed is not None:
        raise failed
    for kind, usage, _ in results:
        if kind:
            raise _Elsewhere(2 if usage else 1)
    return [cast(T, result) for _, _, result in results]


def deal(costs: Sequence[int], ranks: int) -> list[list[int]]:
    """Return the pieces of each rank, by ascending number: the costliest first, each to the least loaded rank."""
    loads = [(0, rank) for rank in range(ranks)]
    hands: list[list[int]] = [[] for _ in range(ranks)]
    for piece in sorted(range(len(costs)), key=lambda number: -costs[number]):  # stable: equal ones in order
        load, rank = heapq.heappop(loads)
        hands[rank].append(piece)
        heapq.heappush(loads, (load + int(costs[piece]), rank))
    return [sorted(hand) for hand in hands]


def shared_out(costs: Sequence[int], work: Callable[[int], T]) -> list[T]:
    """Return `work` of every piece, in order; each rank does a share, divided by cost. Raises what `share` does."""
    mine = deal(costs, world())[rank()]
    shares = share(lambda: [(piece, work(piece)) for piece in mine])
    return [value for _, value in sorted((pair for pairs in shares for pair in pairs), key=itemgetter(0))]


def check_alike(values: Sequence[object], what: str) -> None:
    """Check that all ranks have the same value."""
    others = [str(n) for n, value in enumerate(values) if value != values[0]]
    if others:
        raise UserError(
            f"{what}: not the same in rank 0 and rank {', '.join(others)}; all machines need the same files, the same "
            "options and the same versions"
        )
