"""Run by torchrun: several commands one after the other in one job of several processes, as each does by itself.

    torchrun --nproc-per-node 2 tests/support/rank_jobs.py JOBS.json FOUND.json

JOBS.json holds the words of each command line, the first of which is `train`, `generate`, `embed` or `score`.
FOUND.json gets, for each, the exit status, what it printed, and after a training a digest of weights and optimizer of
every rank.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import plugins  # noqa: F401  registers more architectures
import toy  # noqa: F401
from torch import Tensor
from torch.distributed.tensor import DTensor

from docnmt.core.training import start as training
from docnmt.core.training.run import Run
from docnmt.core.training.trainer import Epoch
from docnmt.runtime import jobs as ranks


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    digests: list[str]


def digest(run: Run) -> str:
    """Of all that a rank has learned."""
    checksum = hashlib.sha256()
    moments = [value for held in run.optimizer.state.values() for value in held.values() if isinstance(value, Tensor)]
    for tensor in [*run.model.state_dict().values(), *moments]:
        own = tensor.to_local() if isinstance(tensor, DTensor) else tensor  # this rank's part, under --shard
        checksum.update(own.detach().cpu().numpy().tobytes())
    return checksum.hexdigest()


def main(jobs: Path, output: Path) -> None:
    """All jobs."""
    digests: list[str] = []
    train_one = training.train

    def _train(run: Run, epoch: Epoch) -> str:
        reason = train_one(run, epoch)
        digests.extend(ranks.exchange(digest(run)))
        return reason

    training.train = _train
    with ranks.joined():  # a job before
        late = ranks.rank()
    time.sleep(late)
    results = []
    with ranks.joined():
        for command, *words in json.loads(jobs.read_text()):
            digests.clear()
            with contextlib.redirect_stdout(io.StringIO()) as out:
                status = importlib.import_module(f"docnmt.cli.{command}").main(words)
            results.append(asdict(Result(status, out.getvalue(), list(digests))))
        if ranks.rank() == 0:
            output.write_text(json.dumps(results))


def torchrun(processes: int, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """A job of several processes on this machine."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    print(done.stderr, file=sys.stderr)  # pytest shows it where a test fails
    return done


def run_jobs(folder: Path, processes: int, jobs: list[list[str]]) -> list[Result]:
    """What became of every job."""
    (folder / "jobs.json").write_text(json.dumps(jobs))
    done = torchrun(processes, __file__, str(folder / "jobs.json"), str(folder / "found.json"))
    assert done.returncode == 0, done.stderr
    return [Result(**result) for result in json.loads((folder / "found.json").read_text())]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # as a command of its own ends (cli/command.py)
