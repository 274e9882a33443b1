"""A corpus to its scores in Python: what the commands do, with their results as values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import docnmt
from docnmt.cli import generate, score
from docnmt.runtime.system import UserError

SHORT = {"max_len_a": 0.5, "max_len_b": 2, "beam": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, and a model of two updates."""
    folder = tmp_path_factory.mktemp("library")
    prefixes = {name: str(folder / name) for name in ("train", "valid", "test")}
    for name, prefix in prefixes.items():
        for side in ("en", "de"):
            lines = "\n\n".join("\n".join(f"{w} {side} ." for w in (f"a{n}", "b", "c")) for n in range(8))
            Path(f"{prefix}.{side}").write_text(f"{lines}\n{name} .\n")
    data = docnmt.preprocess(
        source_lang="en", target_lang="de", trainpref=prefixes["train"], validpref=prefixes["valid"],
        testpref=prefixes["test"], destdir=folder / "data", vocab_size=26,
    )  # fmt: skip
    assert data == folder / "data"
    trained = docnmt.train(data, arch="transformer_tiny", save_dir=folder / "run", max_update=2, device="cpu")
    assert trained.last is not None
    return folder


def test_generate_gives_what_the_command_prints_and_writes(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = docnmt.generate(run / "data", run / "run", device="cpu", **SHORT)
    assert not capsys.readouterr().out
    assert [len(document) for document in found.translations] == [3] * 7 + [4]
    words = ["--path", str(run / "run"), "--device", "cpu", "--beam", "2", "--max-len-a", "0.5", "--max-len-b", "2"]
    assert generate.main([str(run / "data"), *words, "--results-path", str(tmp_path / "r"), "--quiet"]) == 0
    texts = (tmp_path / "r/hypotheses.txt").read_text().split("\n")[:-1]
    sentences = [each.text for document in found.translations for each in document]
    assert [line for n, line in enumerate(texts) if (n + 1) % 4 or n == 31] == sentences
    scores = json.loads((tmp_path / "r/scores.json").read_text())
    without = {key: value for key, value in scores.items() if key not in ("speed", "settings")}
    assert {key: value for key, value in json.loads(json.dumps(found.scores)).items() if key in without} == without


def test_score_gives_what_the_command_prints_as_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ref, sys = str(run / "test.de"), str(run / "test.en")
    found = docnmt.score(ref=ref, sys=sys, metrics=["TER"])
    assert not capsys.readouterr().out
    assert score.main(["--ref", ref, "--sys", sys, "--metrics", "TER", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found))


def test_a_wrong_option_is_the_commands_error(run: Path) -> None:
    with pytest.raises(UserError, match="--beem"):
        docnmt.generate(run / "data", run / "run", beem=3)
    with pytest.raises(UserError, match="--destdir"):
        docnmt.preprocess(source_lang="en", target_lang="de", trainpref=run / "train")
    with pytest.raises(UserError, match="--ref"):
        docnmt.score(sys="a.txt")
