"""Before torch is there: which process of its job this one is, and the processors and memory that it may use."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docnmt.runtime.system import UsageError

#: The first of the ports from which SLURM jobs without `MASTER_PORT` take one, by the number of the job.
_PORTS = 20_000


@dataclass(frozen=True)
class JobProcess:
    """The place of one process in a job."""

    rank: int = 0  # its number in the whole job
    world: int = 1  # the number of processes
    local_rank: int = 0  # its number on its machine
    address: str = "localhost"  # where the processes connect
    port: int = 0


def job_process_in(environment: Mapping[str, str]) -> JobProcess:
    """Return the place from torchrun's variables, or from those of a SLURM step (`srun`) of several tasks."""
    get = environment.get
    if get("WORLD_SIZE") and get("RANK"):
        rank, world, local = (_number(environment, name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    elif get("SLURM_STEP_NUM_TASKS", "1") != "1":  # not SLURM_NTASKS: an sbatch script has that, too, and runs once
        names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
        rank, world, local = (_number(environment, name) for name in names)
    else:
        return JobProcess()
    nodes = get("SLURM_STEP_NODELIST", "localhost")
    first = re.match(r"([^,\[]+)(?:\[(\d+))?", nodes)  # of SLURM's list: `node[03-07,9],other` → node03
    address = get("MASTER_ADDR") or ("".join(filter(None, first.groups())) if first else nodes)
    port = _number(environment, "MASTER_PORT") or _PORTS + _number(environment, "SLURM_JOB_ID") % 20_000
    return JobProcess(rank, world, local, address, port)


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment.get(name) or 0)
    except ValueError:
        raise UsageError(f"{name}={environment[name]} in the environment: expected a number") from None


@cache
def job_process() -> JobProcess:
    """Return this process's place, which is 0 of 1 if it was started by itself."""
    return job_process_in(os.environ)


def processors() -> int:
    """Return the number of processors that this process may use, by affinity and its control group's limit."""
    affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = Path("/sys/fs/cgroup/cpu.max")  # "max 100000" or "200000 100000": microseconds a period
    if not limit.is_file():
        return affine
    quota, period = limit.read_text().split()
    return affine if quota == "max" else min(affine, max(1, int(quota) // int(period)))


def obtainable_memory(system: Path = Path("/")) -> int | None:
    """Return the bytes this process can have: its own and what machine and control group have left; None if unknown."""
    left = []
    with contextlib.suppress(OSError, ValueError, KeyError):
        sizes = dict(line.split(":") for line in (system / "proc/meminfo").read_text().splitlines())
        left.append(sum(1024 * int(sizes[name].split()[0]) for name in ("MemAvailable", "SwapFree")))
    group = system / "sys/fs/cgroup"
    with contextlib.suppress(OSError, ValueError, KeyError):  # "max" is no number
        most, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        kinds = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        left.append(most - used + int(kinds["file"]))  # pages of files give way
    with contextlib.suppress(OSError, ValueError, IndexError):
        own = int((system / "proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return own + min(left) if left else None
    return None


_connected = False


def set_connected() -> None:
    """Record that the processes of the job have connected."""
    global _connected
    _connected = True


def unconnected() -> bool:
    """Return True if this is one of several processes that have not connected yet: it cannot know their state."""
    return job_process().world > 1 and not _connected


def mute() -> None:
    """Suppress all further output of this process; another one of the job prints for all."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (for the rest of the process)


def unmute() -> None:
    """Undo `mute`."""
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
