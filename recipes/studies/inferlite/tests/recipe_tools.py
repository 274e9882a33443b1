"""Scripts of studies as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def tool(name: str, folder: str = "inferlite") -> ModuleType:
    path = Path(__file__).parents[2] / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module
