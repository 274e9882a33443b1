"""What several tests of commands share: a corpus and a system, each made once a run, and a browser's page."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import COMMANDS, Run, write_system
from trainings import write_backwards


@pytest.fixture(scope="session")
def data(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A corpus whose translation is every word spelt backwards; its files stand beside it. It is only read."""
    return made_once("backwards", write_backwards) / "data"


@pytest.fixture(scope="module")
def folder(made_once: Callable[[str, Callable[[Path], None]], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder of `commands.write_system`."""
    made = made_once("system", write_system)
    return shutil.copytree(made, tmp_path_factory.mktemp("system"), dirs_exist_ok=True)


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in `folder`; gives its exit status, stdout and stderr."""
    monkeypatch.chdir(folder)

    def call(command: str, *options: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        status = COMMANDS[command].main(list(options))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.fixture
def page(chromium: Any, service: Any) -> Iterator[Any]:
    """The page, opened; at the end nothing may have been logged, nor asked of anybody else."""
    context = chromium.new_context(viewport={"width": 1200, "height": 800}, accept_downloads=True)
    opened, noticed = context.new_page(), []
    for event in ("console", "pageerror"):
        opened.on(event, lambda what: noticed.append(str(what)))
    opened.on("request", lambda request: noticed.append(request.url))
    refused = "Failed to load resource: the server responded with a status of 40"  # Chromium's own words
    opened.goto(service.address)
    yield opened
    assert not [each for each in noticed if not each.startswith((f"{service.address}/", "blob:", refused))]
    context.close()
