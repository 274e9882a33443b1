"""Progress on stderr: a bar on a terminal, lines in a log."""

from __future__ import annotations

import io

import pytest

from docnmt.runtime import progress
from docnmt.runtime.progress import Progress, format_count, format_seconds, waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that tests advance by hand."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_only_every_ten_seconds_and_one_at_the_end(clock: list[float]) -> None:
    file = io.StringIO()
    with Progress(1000, "reading", unit="lines", file=file) as bar:
        for _ in range(100):
            clock[0] += 0.3
            bar.update(10, note="loss 3.2")
    lines = file.getvalue().splitlines()
    assert len(lines) == 3  # at about 10 and 20 seconds, and the end
    assert lines[0].startswith("reading  34% of 1k")
    assert lines[0].endswith("left, loss 3.2")
    assert lines[-1] == "reading: 1,000 lines in 30s, 33 lines/s, loss 3.2"
    assert "\r" not in file.getvalue()


def test_a_terminal_gets_one_line_that_is_redrawn(clock: list[float]) -> None:
    file = Terminal()
    with Progress(10, "reading", file=file) as bar:
        clock[0] += 1
        bar.update(5)
        bar.print("a warning")
    assert "[##########..........]  50%" in file.getvalue()
    assert "1.0s left" in file.getvalue()
    assert "a warning\n" in file.getvalue()
    assert file.getvalue().count("\n") == 2


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_a_bar_inside_other_work_leaves_no_line(clock: list[float], kind: type[io.StringIO]) -> None:
    file = kind()
    with Progress(10, "validating", file=file, lasting=False) as bar:
        clock[0] += 11
        bar.update(5)
        assert "50%" in file.getvalue()
        shown = file.getvalue()
    assert file.getvalue().removeprefix(shown) == ("" if kind is io.StringIO else "\r\x1b[K")


def test_resumed_work_counts_in_the_share_and_not_in_the_rate(clock: list[float]) -> None:
    file = io.StringIO()
    with Progress(100, "training", unit="updates", initial=80, file=file) as bar:
        clock[0] += 10
        bar.update(10)
    assert file.getvalue().splitlines()[0] == "training  90% of 100, 1 updates/s, 10s left"


def test_an_interrupted_bar_says_so(clock: list[float]) -> None:
    file = io.StringIO()
    bar = Progress(None, "reading", file=file)
    bar.update(3)
    bar.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert file.getvalue().startswith("reading (stopped): 3 in")


def test_work_without_a_measure_shows_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TERMINAL_INTERVAL", 0.001)
    file = Terminal()
    with waiting("training a vocabulary", file=file):
        while "training a vocabulary: 0." not in file.getvalue():
            pass
    last = file.getvalue().splitlines()[-1]
    assert last.split("\x1b[K")[-1].startswith("training a vocabulary: 0.")


def test_numbers_for_people() -> None:
    assert [format_count(n) for n in (7, 999, 12_345, 999_000, 4_560_000, 2e9)] == [
        "7", "999", "12.3k", "999k", "4.56M", "2G",
    ]  # fmt: skip
    assert [format_seconds(s) for s in (3.21, 42, 245, 7629)] == ["3.2s", "42s", "4:05", "2:07:09"]
