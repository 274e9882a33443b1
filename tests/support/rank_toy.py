"""Run by torchrun: `docnmt-train` on the toy task, each rank's process number in a file `pid.RANK` beside the save-dir.

torchrun --nproc-per-node 2 tests/support/rank_toy.py ARCH DATA SAVE_DIR [OPTION ...]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import toy

from docnmt.runtime.ranks import lost_ranks

if __name__ == "__main__":
    lost_ranks.BEAT, lost_ranks._PATIENCE = 0.4, 2.5  # a lost rank is named sooner
    arch, data, save_dir, *options = sys.argv[1:]
    (Path(save_dir).parent / f"pid.{os.environ['RANK']}").write_text(str(os.getpid()))
    sys.exit(toy.train(Path(data), Path(save_dir), *options, arch=arch))
