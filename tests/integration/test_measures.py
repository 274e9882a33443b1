"""What tools/trace_calls.py and tools/structure.py say of the package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def output_of(*words: str) -> str:
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_update_and_a_translation_are_followed() -> None:
    table = output_of("tools/trace_calls.py")
    row = r"\| (one update|translating).*? \| (\d+) \| (\d+) \| ([\d,]+) \| ([\d,]+) \|"
    found = re.findall(row, table)
    assert [row[0] for row in found] == ["one update", "translating"], table
    for row in found:
        files, functions, calls, switches = (int(number.replace(",", "")) for number in row[1:])
        assert 10 < files < functions < calls
        assert files < switches < calls


def test_a_package_is_measured(tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "embed.py").write_text("x: Any = 1\n\n\ndef bare(x) -> Any: ...\n")
    (tmp_path / "main.py").write_text('def said():\n    """Said."""\n    def inner(): ...\n\n\ndef _own(): ...\n')
    text = output_of("tools/structure.py", str(tmp_path), "--list")
    numbers = dict(re.findall(r"\| (.+?) \| (\d+) \|", text))
    assert list(numbers.values()) == ["3", "2", "10", "10", "5", "2", "3", "2"]
    assert "cli/embed.py:4: bare" in text
    assert "main.py:3: inner" in text
