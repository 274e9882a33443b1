"""The ranks of a job: exchange of values, sums of tensors, lost ranks.
A process that was started by itself is the only rank; then nothing here costs anything.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from operator import itemgetter
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from docnmt.runtime import launch
from docnmt.runtime.launch import deal as deal
from docnmt.runtime.system import HungUp, Terminated, UsageError, UserError

# The state of this process in its job: its rank, and the number of ranks.


#: The signals that stop all ranks, by name.
STOPS: dict[str, type[BaseException]] = {kind.__name__: kind for kind in (Terminated, HungUp, KeyboardInterrupt)}


@dataclass
class RankState:
    """The state of a job of several processes, besides torch.distributed's own.

    Attributes:
        afterwards: advice in messages after another process has ended the job.
    """

    store: Store
    afterwards: str
    launcher_gone: bool = False
    working: int = 0
    stopped: bool = False
    ended: threading.Event = field(default_factory=threading.Event)


_job: RankState | None = None


def current() -> RankState | None:
    """Return the current job of several processes, if there is one."""
    return _job


def enter(job: RankState | None) -> None:
    """Set the current job; None: it has ended."""
    global _job
    _job = job


class Elsewhere(SystemExit):
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
    return STOPS[name]()


# Detection of ranks that have ended, failed or frozen, and agreement on which of the others reports it.


#: Seconds between two heartbeats, and how long a silent rank is waited for once communication has failed.
BEAT, _PATIENCE = 1.0, 5.0
#: Minutes after which a rank without heartbeats ends a job whose communication waits for it.
TIMEOUT = 10.0


def timeout() -> float:
    """Return the seconds after which a rank without heartbeats ends the job: DOCNMT_RANK_TIMEOUT, in minutes.

    Raises:
        UsageError: DOCNMT_RANK_TIMEOUT is not a number above 0.
    """
    wish = os.environ.get("DOCNMT_RANK_TIMEOUT") or str(TIMEOUT)
    try:
        seconds = 60 * float(wish)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"DOCNMT_RANK_TIMEOUT={wish} in the environment: expected a number of minutes above 0")
    return seconds


@contextlib.contextmanager
def signs_of_life(job: RankState, own: int, ranks: int) -> Iterator[None]:
    """Give heartbeats until the job has ended, and end this process when another rank has given none for too long.

    A rank that is stopped, swaps or has lost its machine closes no connection, so that communication would wait for it.

    Raises:
        UsageError: see `timeout`.
    """
    limit, silent = timeout(), [0.0] * ranks
    threads = [
        threading.Thread(target=_beat, args=(job, own, silent, limit), daemon=True),
        threading.Thread(target=_watch, args=(job, own, silent, limit), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        job.ended.set()
        for thread in threads:
            thread.join(_PATIENCE)  # one that returns from native code when Python has ended would abort the process


def _beat(job: RankState, own: int, silent: list[float], limit: float) -> None:
    """Count this rank's heartbeats in the store, and reset `silent` of those ranks that have given some."""
    known, waited = [0] * len(silent), math.inf
    with contextlib.suppress(RuntimeError):
        while not job.ended.wait(BEAT):
            job.store.add(f"beat/{own}", 1)
            waited += BEAT
            if waited >= limit / 20:  # rarely: each rank asks for all
                beats, waited = [job.store.add(f"beat/{n}", 0) for n in range(len(silent))], 0.0
                for n, beat in enumerate(beats):
                    silent[n] = 0.0 if beat != known[n] else silent[n]
                known = beats
    job.launcher_gone = not job.ended.is_set()


def _watch(job: RankState, own: int, silent: list[float], limit: float) -> None:
    """End this process if `silent`, the seconds since each rank's last heartbeat, reaches the limit.

    Seconds in which this process itself is stopped do not count. Its own entry is the silence of the store.
    """
    while not job.ended.wait(BEAT):
        for n in range(len(silent)):
            silent[n] += BEAT
        store_answers = silent[own] < limit / 4
        frozen = [n for n, seconds in enumerate(silent) if n != own and seconds >= limit]
        if (frozen and store_answers) or silent[own] >= limit:
            _end(job, own, frozen if store_answers else [], limit, len(silent))


def _end(job: RankState, own: int, frozen: list[int], limit: float, ranks: int) -> None:
    """Print, in one rank, which ranks are frozen, and end this process, whose main thread may wait for them forever."""
    first = own <= 1  # without the store ranks agree on nothing; the first may hold it, and be what does not answer
    what = "the process that holds this job together, or one that has not joined it, gives"
    if frozen:
        with contextlib.suppress(RuntimeError):
            first = _first_to_tell(job)
            names = [job.store.get(f"name/{n}").decode() if job.store.check([f"name/{n}"]) else "" for n in frozen]
            silent = [f"rank {n}{name and f' ({name})'}" for n, name in zip(frozen, names, strict=True)]
            what = f"{' and '.join(silent)} of {ranks} give{'s' * (len(frozen) == 1)}"
    if job.ended.is_set():
        return
    if first:
        period = f"{limit / 60:g} minutes" if limit >= 60 else f"{limit:g} seconds"
        launch.unmute()
        print(
            f"{launch.command}: error: {what} no sign of life for {period} (stopped, swapping, or cut off); "
            f"{job.afterwards}; DOCNMT_RANK_TIMEOUT=MINUTES waits longer",
            file=sys.stderr, flush=True,
        )  # fmt: skip
    else:
        time.sleep(BEAT)  # the reporting rank must end first
    os._exit(1)


def lost(job: RankState) -> BaseException | None:
    """Return an error if a rank is gone without a message, or if one has already reported why all end; else None."""
    try:
        before = _beats(job)
        time.sleep(_PATIENCE)
        if job.store.add("told", 0):
            return Elsewhere(1)
        gone = [n for n, beat in enumerate(_beats(job)) if beat == before[n] and n != rank()]
        names = [f"rank {n} ({job.store.get(f'name/{n}').decode()})" for n in gone]
    except RuntimeError:
        return UserError(f"the process that held this job together is gone; {job.afterwards}")
    if not gone:
        return None
    return UserError(f"{' and '.join(names)} of {world()} was killed or lost; {job.afterwards}")


def _beats(job: RankState) -> list[int]:
    """Return the number of heartbeats of each rank."""
    return [job.store.add(f"beat/{n}", 0) for n in range(world())]


def why(job: RankState, error: RuntimeError) -> BaseException:
    """Return the reason why a collective operation failed."""
    return lost(job) or UserError(f"rank {rank()}: the ranks lost touch: {error}")


def reason(job: RankState, error: BaseException) -> BaseException:
    """Return the error to end this process with: its own if no other rank has failed, else the reason of the others."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # first: once one has reported, the launcher stops all
    found: BaseException | None = error
    if isinstance(error, (Terminated, KeyboardInterrupt)):
        found = None if job.stopped else lost(job)  # a launcher stops all when it sees one end
        if found is None:
            return error
    elif isinstance(error, RuntimeError) and any(name in str(error).lower() for name in ("gloo", "nccl")):
        found = lost(job) or error
    if isinstance(found, Elsewhere) or not _first_to_tell(job):
        time.sleep(BEAT)  # the reporting rank must end first
        return Elsewhere(2 if isinstance(error, UsageError) else 1)
    launch.unmute()
    return found or error


def _first_to_tell(job: RankState) -> bool:
    """Return True if no other rank has reported yet why the job ends."""
    try:
        return bool(job.store.add("told", 1) == 1)
    except RuntimeError:
        return True


# Operations on tensors of all ranks: sum, gather, broadcast.


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


# Exchange of JSON values among all ranks, and shared work.


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


# Connecting and disconnecting the ranks of a job.


#: How long a rank waits for others that live: longer than one ever works alone, like the first for `--explain`.
_WAIT = timedelta(days=1)


@contextlib.contextmanager
def joined(*, afterwards: str = "run the command again") -> Iterator[None]:
    """Connect to the other ranks, if any, inside the context. Only the first prints; an error is printed only once.

    Args:
        afterwards: advice in messages after another process has ended the job.

    Raises:
        UserError: the others did not connect.
        UsageError: DOCNMT_RANK_TIMEOUT is no number of minutes.
        Elsewhere: another rank has failed, and reports it.
    """
    place = launch.place()
    if place.world == 1 or current() is not None:
        yield
        return
    os.environ.update(MASTER_ADDR=place.address, MASTER_PORT=str(place.port))
    os.environ.update(RANK=str(place.rank), WORLD_SIZE=str(place.world), LOCAL_RANK=str(place.local_rank))
    if torch.cuda.is_available():
        torch.cuda.set_device(place.local_rank)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    where = f"rank {place.rank} of {place.world}: could not meet the others at {place.address}:{place.port}"
    try:
        store, _, _ = next(rendezvous("env://"))
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{where}: {error}") from error
    job = RankState(PrefixStore("docnmt", store), afterwards)
    with signs_of_life(job, place.rank, place.world):
        try:
            distributed.init_process_group(backend, store=store, rank=place.rank, world_size=place.world, timeout=_WAIT)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{where}: {error}") from error
        enter(job)
        launch.meet()
        if place.rank:
            launch.mute()
        try:
            job.store.set(f"name/{place.rank}", f"{socket.gethostname()}, process {os.getpid()}")
            exchange(None)
            yield
            exchange(None)  # wait for all: the first rank may hold the store
        except (Exception, Terminated, KeyboardInterrupt) as error:
            found = reason(job, error)
            if found is error:
                raise
            raise found from error
        else:
            distributed.destroy_process_group()
        finally:
            enter(None)
