"""JSON and YAML that nobody means are refused at once, in a line that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from docnmt.options import read_yaml
from docnmt.runtime.system import (
    Count,
    OpenObject,
    UsageError,
    UserError,
    checked,
    parse_json,
    printable,
    read_json,
    shortened,
)

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[" * 20_000, ""),
        ("a: " + "- " * 20_000, ""),
        (BOMB, "'b'"),
        ("lr: !!bool x\n", "options.yaml: "),
        ("lr: !!timestamp 2024-02-30\n", "options.yaml: "),
        ("lr: !!python/object:os.system x\n", "could not determine a constructor"),
        ("lr: {a: 1}\n", "'lr'"),
        ("? [a, b]\n: 1\n", ""),
        ("lr: \x00\n", "options.yaml: "),
        ("lr: 1\n--- \nlr: 2\n", "expected a single document"),
        ("- 1\n", "expected 'object"),
    ],
)
def test_yaml_of_something_else(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "options.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_yaml(file)
    assert f"--config {file}" in str(caught.value)
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


def test_yaml_that_people_write(tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("# mine\nlr: 1e-3\nbf16: yes\nname: '2024-02-30'\nresolutions: [1, 2, 0]\nlist:\n- a\n- b\nnone:\n")
    assert read_yaml(file) == {
        "lr": "1e-3", "bf16": True, "name": "2024-02-30", "resolutions": [1, 2, 0], "list": ["a", "b"], "none": None,
    }  # fmt: skip
    file.write_text("")
    assert read_yaml(file) == {}


class Entry(OpenObject):
    count: Count


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "Expecting property name"),
        ("[" * 100_000, "maximum recursion depth"),
        ("9" * 10_000, "Exceeds the limit"),
        ('"\\ud800"', "ud800"),
        ('{"count": -1}', "'$.count'"),
        ('{"count": 1e999}', "'$.count'"),
        ('{"count": true}', "'$.count'"),
        ("{}", "'count'"),
        ("[]", "'object'"),
    ],
)
def test_hostile_json(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_json(file, Entry, "make it again")
    assert str(caught.value).startswith(f"{file}: ")
    assert complaint in str(caught.value)


def test_what_fits_is_read(tmp_path: Path) -> None:
    assert checked(parse_json('{"count": 3, "more": NaN}', "x"), Entry, "x").count == 3
    (tmp_path / "large.json").write_text(" " * 100)
    with pytest.raises(UserError):
        read_json(tmp_path / "large.json", Entry, most=50)


def test_what_steers_a_terminal_is_spelt() -> None:
    assert printable("a\x1b[2Jb\rc\x9bd\te\nü‮") == "a\\x1b[2Jb\\rc\\x9bd\te\nü\\u202e"
    assert len(shortened("x" * 10**6)) < 5000
