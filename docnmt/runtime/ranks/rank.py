"""The state of this process in its job: its rank, and the number of ranks."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from torch import distributed
from torch.distributed.distributed_c10d import Store

from docnmt.runtime.errors import HungUp, Terminated

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
