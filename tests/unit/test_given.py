"""The words of a command line and its file of options are read once."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

import pytest

from docnmt.cli import command as module
from docnmt.cli.command import Given
from docnmt.cli.score import main as score
from docnmt.cli.train import main as train
from docnmt.core.search.config import BeamSearchConfig, SamplingConfig
from docnmt.options import NoOptions, Section, option
from docnmt.runtime.system import UsageError


def test_the_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    there = module.read_yaml
    monkeypatch.setattr(module, "read_yaml", lambda path: read.append(path) or there(path))
    (tmp_path / "options.yaml").write_text("arch: transformer_tiny\ndebug: false\nlr: much\n")
    assert train(["nowhere", "--task", "nli", "--config", str(tmp_path / "options.yaml")]) == 2
    assert len(read) == 1


def test_words_are_sorted_out_step_by_step() -> None:
    given = Given("test", ["--beam", "3", "--generator", "sampling", "--top-k=5", "--debug", "--strange", "-1"])
    assert given.debug
    given.read_choices("generator")
    assert given.get("generator") == "sampling"
    given.parse([Section("beam_search", BeamSearchConfig), Section("sampling", SamplingConfig)])
    assert given.typed == {"generator": "sampling", "beam": "3", "top_k": "5"}
    assert given.rest == ["--strange", "-1"]


@pytest.mark.parametrize("value", ["'no'", "[false]", "2"])
def test_switches_in_files_are_true_or_false(value: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"skip-checksums: {value}\n")
    with pytest.raises(UsageError, match=r"c\.yaml.*--skip-checksums"):
        Given("docnmt-train", ["--config", str(tmp_path / "c.yaml")])
    (tmp_path / "c.yaml").write_text("skip_checksums: true\ndebug: false\n")
    given = Given("docnmt-train", ["--config", str(tmp_path / "c.yaml")])
    assert (given.skip_checksums, given.debug) == (True, False)
    (tmp_path / "c.yaml").write_text("skip_checksums: 'true'\n")  # as in every other option
    assert Given("docnmt-train", ["--config", str(tmp_path / "c.yaml")]).skip_checksums


def test_help_is_noticed_and_common_words_are_taken() -> None:
    assert Given("test", ["-h"]).help == "basic"
    assert Given("test", ["--help-all", "x"]).help == "all"
    given = Given("test", ["a", "--user-dir", "plugins", "b"])
    given.parse([Section("none", NoOptions)])
    assert (given.user_dir, given.rest, given.help) == ("plugins", ["a", "b"], None)


@dataclass(frozen=True)
class Places:
    """Two positional words and options of one and of several values."""

    first: str = option(MISSING, "", positional=True)
    second: str = option(MISSING, "", positional=True)
    texts: tuple[str, ...] = option((), "")
    kind: str = option("a", "")


@pytest.mark.parametrize("between", [["--kind", "b"], ["--debug"], ["--user-dir", "plugins"]])
def test_a_word_behind_an_option_is_no_value_of_the_option_before_it(between: list[str]) -> None:
    given = Given("test", ["x", "--texts", "1", "2", *between, "y", "z"])
    given.read_choices("kind")
    given.parse([Section("places", Places)])
    assert (given.typed["first"], given.typed["second"]) == ("x", "y")
    assert (given.typed["texts"], given.rest) == (["1", "2"], ["z"])


@pytest.mark.parametrize(
    "words", [["x", "--kind=b", "-"], ["--kind", "b", "x", "--", "-"], ["--kind", "b", "--", "x", "-"]]
)
def test_positional_words_stand_anywhere(words: list[str]) -> None:
    given = Given("test", words)
    given.parse([Section("places", Places)])
    assert given.typed == {"first": "x", "second": "-", "kind": "b"}
    assert not given.rest


def test_what_follows_two_dashes_is_no_option() -> None:
    given = Given("test", ["--", "--kind", "-1"])
    given.parse([Section("places", Places)])
    assert given.typed == {"first": "--kind", "second": "-1"}


def test_a_note_says_that_an_option_of_several_values_is_there_twice(capsys: pytest.CaptureFixture[str]) -> None:
    given = Given("test", ["--texts", "1", "--kind", "b", "--kind", "c", "--texts", "2"])
    given.parse([Section("places", Places)])
    assert given.typed == {"texts": ["2"], "kind": "c"}
    assert capsys.readouterr().err.count("--texts") == 1
    given = Given("test", ["--texts", "1", "2", "--kind", "b", "--kind", "c"])
    given.parse([Section("places", Places)])
    assert given.typed == {"texts": ["1", "2"], "kind": "c"}
    assert capsys.readouterr().err == ""


def test_another_file_behind_an_option_is_no_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "abc":
        (tmp_path / name).write_text("One.\n")
    files = ["--ref", str(tmp_path / "a"), "--sys", str(tmp_path / "b")]
    assert score([*files, "--resegment", "--resegmented", str(tmp_path / "d"), str(tmp_path / "c")]) == 2
    assert str(tmp_path / "c") in capsys.readouterr().err
