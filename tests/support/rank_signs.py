"""Run by torchrun: two ranks meet and part while their signs of life are slow; the status is 1 if a thread is left."""

from __future__ import annotations

import contextlib
import sys
import threading
from datetime import timedelta

from docnmt.runtime import jobs as gone
from docnmt.runtime import jobs as ranks
from docnmt.runtime.jobs import RankState


def slow(job: RankState, own: int, *_: object) -> None:
    """A sign of life that is in native code when the job ends, and a second later still."""
    job.store.add(f"beat/{own}", 1)
    job.ended.wait()
    with contextlib.suppress(RuntimeError):
        job.store.wait(["never"], timedelta(seconds=1))


if __name__ == "__main__":
    gone._beat = slow
    with ranks.joined():
        pass
    sys.exit(threading.active_count() > 1)
