"""What goes wrong inside a plug-in is said to be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from docnmt.cli.command import run
from docnmt.registry import import_plugins


def test_a_python_error_names_the_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a_broken_plugin"
    folder.mkdir()
    (folder / "__init__.py").write_text("def work() -> None:\n    raise TypeError('not this way')\n")

    def body(words: list[str]) -> None:
        import_plugins(str(folder))
        import a_broken_plugin  # type: ignore[import-not-found]

        a_broken_plugin.work()

    assert run("docnmt-translate", body, []) == 1
    assert f"{folder / '__init__.py'}, line 2" in capsys.readouterr().err
