"""Progress on stderr: a bar on a terminal, lines in a log."""

from __future__ import annotations

import io

import pytest

from docnmt.runtime import progress
from docnmt.runtime.progress import Progress, format_count, format_seconds


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


def test_numbers_for_people() -> None:
    assert [format_count(n) for n in (7, 999, 12_345, 999_000, 4_560_000, 2e9)] == [
        "7", "999", "12.3k", "999k", "4.56M", "2G",
    ]  # fmt: skip
    assert [format_seconds(s) for s in (3.21, 42, 245, 7629)] == ["3.2s", "42s", "4:05", "2:07:09"]


@pytest.mark.parametrize("power", range(3, 12))
def test_rounded_numbers_move_to_the_next_unit(power: int) -> None:
    """No number has a thousand of a unit, nor a duration 60 seconds or a smaller number than an earlier one."""
    for number in (10**power - 1, 10**power - 0.3, 10**power, 1.001 * 10**power):
        text = format_count(number)
        scaled, unit = float(text.rstrip("kMG")), text.lstrip("0123456789.")
        assert scaled < 1000
        assert scaled * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[unit] == pytest.approx(number, rel=0.005)


def test_rounded_seconds_are_minutes() -> None:
    assert [format_seconds(s) for s in (9.94, 9.97, 59.4, 59.7, 3599.4, 3599.7)] == [
        "9.9s", "10s", "59s", "1:00", "59:59", "1:00:00",
    ]  # fmt: skip


def test_what_is_done_once_does_not_count_in_the_time_left(clock: list[float]) -> None:
    """The first unit takes ten minutes, as it also measures memory; all others take a second."""
    file = io.StringIO()
    with Progress(1000, "training", unit="updates", file=file) as bar:
        clock[0] += 600
        bar.update(1)
        for _ in range(99):
            clock[0] += 1
            bar.update(1)
    shown = file.getvalue().splitlines()[-2]
    minutes = int(shown.split(" left")[0].split(", ")[-1].split(":")[0])
    assert minutes == 15
