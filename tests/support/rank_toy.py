"""Run by torchrun: `docnmt-train` on the toy task, each rank's process number in a file `pid.RANK` beside the save-dir.

torchrun --nproc-per-node 2 tests/support/rank_toy.py ARCH DATA SAVE_DIR [OPTION ...]

In the rank FAST_CLOCK an hour passes between any two looks at the clock.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import toy

from docnmt.core.training import run
from docnmt.core.training import trainer as validation
from docnmt.runtime import jobs

if __name__ == "__main__":
    jobs._PATIENCE = 2.5  # a lost rank is named sooner
    arch, data, save_dir, *options = sys.argv[1:]
    (Path(save_dir).parent / f"pid.{os.environ['RANK']}").write_text(str(os.getpid()))
    if os.environ.get("FAST_CLOCK") == os.environ["RANK"]:
        hours = itertools.count(3600, 3600)
        for module in (run, validation):
            clock = SimpleNamespace(**{**vars(time), "monotonic": lambda: time.monotonic() + next(hours)})
            module.time = clock  # type: ignore[assignment]
    sys.exit(toy.train(Path(data), Path(save_dir), *options, arch=arch))
