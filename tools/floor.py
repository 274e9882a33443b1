"""Print the lowest versions that pyproject.toml promises, one a line as pip's constraints: `numpy==1.24`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def floors(requirements: list[str]) -> list[str]:
    """`["numpy>=1.24", "docnmt[x]"]` → `["numpy==1.24"]`; what has no lower bound is left out."""
    found = (re.match(r"([\w.-]+)(?:\[.*\])?\s*>=\s*([\w.]+)", requirement) for requirement in requirements)
    return [f"{match[1]}=={match[2]}" for match in found if match]


if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print("\n".join(floors(project["dependencies"])))
