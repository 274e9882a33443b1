"""The wheel holds all that the package needs outside of the repository."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_file_of_the_package_is_in_the_wheel(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    copy = tmp_path / "source"
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("needs the repository")
    for name in tracked:
        if name.startswith("docnmt/") or name in ("pyproject.toml", "README.md", "LICENSE"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    words = ["wheel", str(copy), "--no-deps", "--no-build-isolation", "-q", "-w", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    if "invalid command 'bdist_wheel'" in done.stderr:
        pytest.skip("needs wheel, or a newer setuptools")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in tracked if name.startswith("docnmt/")} <= set(names)
