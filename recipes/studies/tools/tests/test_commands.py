"""Every command on a page of a study has the options that it names."""

from __future__ import annotations

import argparse
import runpy
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from documented import ROOT, SCRIPTS, Shown, commands, inside, options

PAGES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("recipes/studies/*/*.md"))


@pytest.mark.parametrize("command", [command for page in PAGES for command in commands(page)], ids=str)
def test_a_command_has_these_options(command: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    words = command.words
    with inside(ROOT):
        if words[0] in SCRIPTS:
            assert {word.partition("=")[0] for word in words if word.startswith("-")} <= options(words)
        elif words[0] == "python" and words[1].endswith(".py"):
            parsed(words[1:], monkeypatch)
        elif words[0] == "bash" or words[0].endswith(".sh"):
            subprocess.run(["bash", "-n", words[1] if words[0] == "bash" else words[0]], check=True)
        else:
            assert words[0] in ("python", "git", "pip", "mkdir", "cp"), "who checks this?"


def parsed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a script parse its arguments and no more."""

    class Parsed(BaseException):
        """The arguments were good."""

    real = argparse.ArgumentParser.parse_args

    def parse_args(self: argparse.ArgumentParser, *arguments: object) -> NoReturn:
        real(self, *arguments)  # type: ignore[call-overload]
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    monkeypatch.setattr(sys, "argv", [word for word in words if word != "…"])
    monkeypatch.setattr(sys, "path", [str(Path(words[0]).resolve().parent), *sys.path])
    names = {path.stem for path in (ROOT / "recipes" / "studies").glob("*/*.py")} & set(sys.modules)
    for name in names:  # studies have modules of one name
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(Parsed):
        runpy.run_path(words[0], run_name="__main__")
