"""What this process knows of its job: which of its ranks it is, and how many there are."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from torch import distributed
from torch.distributed.distributed_c10d import Store

from docnmt.runtime.errors import HungUp, Terminated

#: The signals that stop all ranks, by their names.
STOPS: dict[str, type[BaseException]] = {kind.__name__: kind for kind in (Terminated, HungUp, KeyboardInterrupt)}


@dataclass
class Job:
    """What this process knows of its job, besides torch.distributed's own state.

    Attributes:
        afterwards: what messages say of a job that another process's end has ended.
    """

    store: Store
    afterwards: str
    launcher_gone: bool = False
    working: int = 0
    stopped: bool = False
    ended: threading.Event = field(default_factory=threading.Event)


_job: Job | None = None


def current() -> Job | None:
    """The job of several processes under way, if there is one."""
    return _job


def enter(job: Job | None) -> None:
    """From here on this is the job; None: there is none any more."""
    global _job
    _job = job


class Elsewhere(SystemExit):
    """This process ends because another one did, which says why."""


def rank() -> int:
    """The number of this process."""
    return distributed.get_rank() if _job is not None else 0


def world() -> int:
    """The number of processes."""
    return distributed.get_world_size() if _job is not None else 1


def may_stop() -> bool:
    """Whether this process may raise a signal here: it works for itself, and the others will learn of it."""
    return _job is None or _job.working > 0


def stop(name: str) -> BaseException:
    """The signal that stops all ranks, and of which all know."""
    if _job is not None:
        _job.stopped = True
    return STOPS[name]()
