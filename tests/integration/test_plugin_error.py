"""What goes wrong inside a plug-in is said to be there."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy import write_toy_data

from docnmt.cli.command import run
from docnmt.cli.train import main as train
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


@pytest.mark.parametrize(("kind", "lacks"), [("task", "load"), ("model", "build"), ("criterion", "build")])
def test_a_class_without_a_method_is_one_line(
    kind: str, lacks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / f"a_bare_{kind}"
    folder.mkdir()
    code = f"from docnmt.registry import register_{kind}\n\n@register_{kind}('bare_{kind}')\nclass Bare:\n    pass\n"
    (folder / "__init__.py").write_text(code)
    arch = "bare_model" if kind == "model" else "toy"
    words = ["--arch", arch, "--user-dir", str(folder), *([] if kind == "model" else [f"--{kind}", f"bare_{kind}"])]
    data = write_toy_data(tmp_path / "data")
    assert train([str(data), "--save-dir", str(tmp_path / "run"), "--device", "cpu", *words]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"a_bare_{kind}.Bare" in line
    assert lacks in line
    assert "unexpected" not in line
    assert not (tmp_path / "run").exists()
