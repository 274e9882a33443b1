"""Detection of ranks that have ended, failed or frozen, and agreement on which of the others reports it."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

from docnmt.runtime import launch
from docnmt.runtime.errors import Terminated, UsageError, UserError
from docnmt.runtime.ranks.rank import Elsewhere, RankState, rank, world

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
