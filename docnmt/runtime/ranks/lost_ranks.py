"""Detection of ranks that have ended or failed, and agreement on which of the others reports it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

from docnmt.runtime import launch
from docnmt.runtime.errors import Terminated, UsageError, UserError
from docnmt.runtime.ranks.rank import Elsewhere, RankState, rank, world

#: Seconds between two heartbeats, and how long a silent rank is waited for.
BEAT, _PATIENCE = 1.0, 5.0


@contextlib.contextmanager
def signs_of_life(job: RankState, own: int) -> Iterator[None]:
    """Give heartbeats until the job has ended, by which the others can detect that this rank is gone."""
    thread = threading.Thread(target=_beat, args=(job, own), daemon=True)
    thread.start()
    try:
        yield
    finally:
        job.ended.set()
        thread.join(_PATIENCE)  # one that returns from native code when Python has ended would abort the process


def _beat(job: RankState, own: int) -> None:
    with contextlib.suppress(RuntimeError):
        while not job.ended.wait(BEAT):
            job.store.add(f"beat/{own}", 1)
    job.launcher_gone = not job.ended.is_set()


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
    found: BaseException | None = error
    if isinstance(error, (Terminated, KeyboardInterrupt)):
        found = None if job.stopped else lost(job)  # a launcher stops all when it sees one end
        if found is None:
            return error
    elif isinstance(error, RuntimeError) and any(name in str(error).lower() for name in ("gloo", "nccl")):
        found = lost(job) or error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # first: once reported, others end and the launcher stops all
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
