"""Which process of a job this is, and what one says that is stopped before it has met the others."""

from __future__ import annotations

import os
import signal

import pytest

from docnmt.cli.command import run
from docnmt.runtime import launch
from docnmt.runtime.system import UsageError

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
STEP = {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "70001"}


def test_torchrun_and_slurm_say_which_process_this_is() -> None:
    assert launch.job_process_in(TORCHRUN) == launch.JobProcess(3, 8, 1, "node1", 29500)
    assert launch.job_process_in({**STEP, "SLURM_STEP_NODELIST": "node[03-07,9]"}) == launch.JobProcess(
        2, 4, 0, "node03", 30_001
    )
    assert launch.job_process_in({"SLURM_JOB_ID": "5", "SLURM_STEP_NUM_TASKS": "1"}) == launch.JobProcess()
    for empty in ({"WORLD_SIZE": "", "RANK": ""}, {"WORLD_SIZE": "2", "RANK": ""}):
        assert launch.job_process_in(empty) == launch.JobProcess()
        assert launch.job_process_in({**STEP, **empty}).world == 4
    with pytest.raises(UsageError, match="WORLD_SIZE"):
        launch.job_process_in({**TORCHRUN, "WORLD_SIZE": "many"})


@pytest.mark.parametrize(
    ("world", "met", "said"),
    [
        (1, False, "stopped by SIGTERM\n"),
        (2, True, "stopped by SIGTERM\n"),
        (2, False, "stopped by SIGTERM before "),
    ],
)
def test_a_signal_before_the_ranks_met_may_be_their_launcher(
    world: int, met: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch, "job_process", lambda: launch.JobProcess(0, world))
    monkeypatch.setattr(launch, "_connected", False)
    if met:
        launch.set_connected()
    assert run("docnmt-train", lambda words: os.kill(os.getpid(), signal.SIGTERM), []) == 143
    assert capsys.readouterr().err.startswith(f"docnmt-train: {said}")
