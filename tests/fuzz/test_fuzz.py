"""Whatever a file holds, reading it works, or ends in one line that a person can read, and soon.

Input N of a reader is the same in every run. What once failed, shortened, is in `corpus/cases.json`; the default run
reads that, and the first inputs of every reader.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import traceback
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1] / "support"), str(Path(__file__).parent)]

from mutate import damaged  # noqa: E402
from readers import Reader, readers  # noqa: E402

from docnmt.runtime.system import UserError, printable, shortened  # noqa: E402

CORPUS = Path(__file__).parent / "corpus"
#: Inputs of a reader whose `share` is 1, in the slow run: 136,000 of all readers together.
MANY, FEW = 4000, 25
SECONDS = 10


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    return {reader.name: reader for reader in readers(tmp_path_factory.mktemp("readers"))}


class TooLong(BaseException):
    """Reading took more than `SECONDS`."""


def _too_long(number: int, frame: object) -> None:
    raise TooLong


def attempt(reader: Reader, content: bytes, folder: Path) -> str:
    """What is wrong with how a reader takes an input; nothing where all is well."""
    path = folder / reader.name.replace("/", "-")
    path.write_bytes(content)
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    try:
        reader.read(path)
    except UserError as error:
        said = printable(shortened(str(error)))
        return "" if "\n" not in said and len(said) < 5000 else f"a message of several lines: {said[:100]}"
    except TooLong:
        return f"more than {SECONDS} s"
    except BaseException as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} {str(error)[:100]} at {Path(frame.filename).name}:{frame.lineno}"
    finally:
        signal.alarm(0)
    return ""


def test_the_good_files_are_read(known: dict[str, Reader], tmp_path: Path) -> None:
    for reader in known.values():
        if reader.name not in ("options.yaml", "config.json"):  # these lack what is checked later
            path = tmp_path / reader.name.replace("/", "-")
            path.write_bytes(reader.good)
            reader.read(path)


def test_found_cases(known: dict[str, Reader], tmp_path: Path) -> None:
    """Inputs that once ended in a traceback or in no answer, shortened; `corpus/cases.json` has them by reader."""
    wrong = []
    for name, cases in json.loads((CORPUS / "cases.json").read_text()).items():
        for case in cases:
            if problem := attempt(known[name], case.encode("latin-1"), tmp_path):
                wrong.append(f"{name}: {case[:60]!r}: {problem}")
    assert wrong == []


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_damaged_inputs(many: bool, known: dict[str, Reader], tmp_path: Path) -> None:
    problems, count = [], 0
    for reader in known.values():
        for number in range(int(MANY * reader.share) if many else FEW):
            content = damaged(reader.good, random.Random(f"{reader.name} {number}"))
            count += 1
            if problem := attempt(reader, content, tmp_path):
                problems.append(f"{reader.name} {number}: {problem}")
    assert count > (100_000 if many else 1000)
    assert problems == []
