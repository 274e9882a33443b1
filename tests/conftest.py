"""Slow and GPU tests are skipped, visibly, unless asked for (`--slow`) or possible (a CUDA device). Tests of pages need
playwright and Chromium, which is looked for under its usual names or in $CHROMIUM."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from docnmt.runtime.system import UserError, printable

settings.register_profile("docnmt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("docnmt")

#: Nothing is asked of any network, whatever a page or the browser itself would like to.
BROWSER = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip


_of_several_lines: list[str] = []


def _noted(error: UserError, *words: object) -> None:
    Exception.__init__(error, *words)
    if len(printable(str(error)).splitlines()) > 1:  # as a command writes it
        _of_several_lines.append(str(error))


UserError.__init__ = _noted  # type: ignore[method-assign,assignment]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_configure(config: pytest.Config) -> None:
    if not os.path.exists("/dev/nvidiactl"):  # no card: Triton's kernels run in its interpreter, chosen at its import
        os.environ["TRITON_INTERPRET"] = "1"
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and so would the tests' processes


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    import torch  # not at the top: the process that only hands tests to others does without

    for item in items:
        if "slow" in item.keywords and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="slow: run with --slow"))
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_collectstart() -> None:
    gc.disable()  # what is imported stays: it is not searched for garbage, now or later


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("across_batches"):
        metafunc.fixturenames.append("rows")
        metafunc.parametrize("rows", ["own", "uneven"], indirect=True)


@pytest.fixture(autouse=True)
def every_message_is_one_line() -> Iterator[None]:
    """Of all that a test raises, also where it looks at nothing but the exit status."""
    _of_several_lines.clear()
    yield
    assert _of_several_lines == []


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Makes a folder that all processes of a run share: the first that needs it fills it, nobody changes it."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def made(name: str, make: Callable[[Path], None]) -> Path:
        folder, done = base / name, base / f"{name}.made"
        with (base / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def data(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A corpus whose translation is every word spelt backwards; its files stand beside it. It is only read."""
    from trainings import write_backwards

    return made_once("backwards", write_backwards) / "data"


@pytest.fixture(scope="session")
def other(data: Path, made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """Single sentences of the vocabulary of `data`."""
    from trainings import write_sentences

    return made_once("sentences", lambda folder: write_sentences(folder, data)) / "data"


@pytest.fixture(scope="module")
def folder(made_once: Callable[[str, Callable[[Path], None]], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder of `commands.write_system`."""
    from commands import write_system

    made = made_once("system", write_system)
    return shutil.copytree(made, tmp_path_factory.mktemp("system"), dirs_exist_ok=True)


@pytest.fixture
def run(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in `folder`; gives its exit status, stdout and stderr."""
    from commands import COMMANDS

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
    assert not [message for message in noticed if not message.startswith((f"{service.address}/", "blob:", refused))]
    context.close()


@pytest.fixture
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows of products as this processor computes them, or as one does that gives them other bits in other batches."""
    import across_batches

    from docnmt.runtime import device as tuning

    with monkeypatch.context() as patch:
        if request.param == "uneven":
            across_batches.emulate(patch)
            tuning._linear_invariant.cache_clear()
            assert not tuning.row_invariant()
        yield
    tuning._linear_invariant.cache_clear()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("needs Chromium, in the PATH or as $CHROMIUM")
    with playwright.sync_playwright() as runner:
        browser = runner.chromium.launch(executable_path=program, args=BROWSER)
        yield browser
        browser.close()


@pytest.fixture
def opened_alone(chromium: Any) -> Iterator[Callable[[str], Any]]:
    """Opens a file in the browser; at the end it may have logged nothing and asked for nothing but itself."""
    with contextlib.ExitStack() as open_pages:

        def opened(address: str) -> Any:
            context = chromium.new_context(viewport={"width": 1300, "height": 900})
            open_pages.callback(context.close)
            page, noticed = context.new_page(), []
            for event in ("console", "pageerror", "request"):
                page.on(event, lambda what: noticed.append(getattr(what, "url", None) or str(what)))
            open_pages.callback(lambda: _only(address, noticed))
            page.goto(address)
            return page

        yield opened


def _only(address: str, noticed: list[str]) -> None:
    assert {url.partition("#")[0] for url in noticed} == {address}
