"""A training is ended at the first validation that is good enough, and not run where there is one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import until as tool

#: Stands for docnmt-train: writes its log, waits for SIGTERM, and says that it came.
TRAINING = """
import signal, sys, time
from pathlib import Path
folder = Path(sys.argv[-1])
signal.signal(signal.SIGTERM, lambda *_: (folder.joinpath("stopped").touch(), sys.exit(1)))
judged = '{"event": "valid", "update": %d, "nll": %s}'
lines = [judged % (1, "null"), judged % (2, "0.009"), '{"event": "tr']
folder.joinpath("train.jsonl").write_text("\\n".join(lines))
time.sleep(60)
"""


def test_a_training_ends_when_it_is_good_enough(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRAINING, "--save-dir", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        tool.main(["--nll", "0.01", "--", *command])
    assert ended.value.code == 0
    assert (tmp_path / "stopped").exists()
    assert not tool.reached(tmp_path / "train.jsonl", 0.008)
    whole = (tmp_path / "train.jsonl").read_text().rpartition("\n")[0]
    (tmp_path / "train.jsonl").write_text(whole + "\n")
    tool.main(["--nll", "0.01", "--", "no-such-command", "--save-dir", str(tmp_path)])  # nothing is run
