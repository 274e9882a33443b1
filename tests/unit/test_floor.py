"""Where a version of torch is known to compute wrong, the program says so; the lowest versions can be tested."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from docnmt.errors import UsageError
from docnmt.training import checks
from docnmt.training.config import TrainingConfig

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from floor import floors


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_right_here(dtype: torch.dtype) -> None:
    assert 0 < checks.half_type_error(dtype) < checks.HALF_TYPE_ERROR / 2


def test_bf16_is_refused_where_it_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    checks.check_half_types(TrainingConfig(arch="transformer", bf16=True))
    monkeypatch.setattr(checks, "half_type_error", lambda dtype: 3.6)
    checks.check_half_types(TrainingConfig(arch="transformer"))
    with pytest.raises(UsageError, match=r"--bf16: torch .* computes conditional attention wrong in bfloat16 \(by 4\)"):
        checks.check_half_types(TrainingConfig(arch="transformer", bf16=True))


def test_lowest_versions() -> None:
    wanted = ["torch>=2.4", "docnmt[plot]", "numpy>=1.24.4,<3", "x", "a-b[c]>=1"]
    assert floors(wanted) == ["torch==2.4", "numpy==1.24.4", "a-b==1"]
