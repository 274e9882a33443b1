"""docnmt compare: systems with several seeds, trained, translated and scored by the commands that anybody can type."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from docnmt.__main__ import main
from docnmt.apps import compare
from docnmt.apps.compare import sampled_difference

PLAN: dict[str, Any] = {
    "folder": "out",
    "data": "data",
    "seeds": [1, 2],
    "train": {"max_update": 2, "max_tokens": 300, "warmup_updates": 1},
    "starts": {"start": {"arch": "transformer_tiny"}},
    "systems": {
        "sentence": {"arch": "transformer_tiny", "start": "start"},
        "context": {"arch": "cond_transformer_tiny", "start": "start"},
    },
    "tests": {"toy": "toy"},
    "contrastive": {"pairs": "pairs.tsv"},
    "generate": {"beam": 1, "max_len_a": 0, "max_len_b": 4},
    "metrics": ["chrF++"],
}


def write(plan: dict[str, Any]) -> str:
    Path("plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")
    return "plan.yaml"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A folder with a corpus; the commands that a comparison runs, in this process."""
    monkeypatch.chdir(tmp_path)
    words = [f"{letter}{letter}o" for letter in "abcdefghij"]
    rng = np.random.default_rng(1)
    documents = [[" ".join(rng.choice(words, 4)) for _ in range(3)] for _ in range(8)]
    text = "\n".join("".join(f"{sentence}\n" for sentence in document) for document in documents)
    Path("toy.en").write_text(text, encoding="utf-8")
    Path("toy.de").write_text("\n".join(line[::-1] for line in text.split("\n")), encoding="utf-8")
    rows = [f"{g}\t{c}\tone two\t{w}\tenö owt\t{t}" for g, w in enumerate(words) for c, t in ((1, w[::-1]), (0, "x"))]
    header = "group\tcorrect\tsrc_context\tsrc\ttgt_context\ttgt"
    Path("pairs.tsv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    sides = ["--trainpref", "toy", "--validpref", "toy"]
    assert main(["preprocess", "-s", "en", "-t", "de", *sides, "--destdir", "data", "--vocab-size", "36"]) == 0
    done: list[list[str]] = []

    def run(call: list[str], *, stdout: object, **_: object) -> SimpleNamespace:
        output = io.StringIO()
        done.append(call[3:])
        with redirect_stdout(output):
            status = main(call[3:])
        return SimpleNamespace(returncode=status, stdout=output.getvalue() if stdout == subprocess.PIPE else None)

    monkeypatch.setattr(compare.subprocess, "run", run)
    return done


@pytest.mark.parametrize("changed", ["start", "data"])
def test_what_was_trained_from_what_is_gone_is_refused(
    changed: str, calls: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Systems of an older start, or of data that were made anew, stood beside those of today."""
    plan = {**PLAN, "seeds": [1], "tests": {}}
    assert main(["compare", write(plan)]) == 0
    assert "pairs: with fewer than 30 blocks" in Path("out/comparison.md").read_text()
    if changed == "start":
        shutil.rmtree("out/start")
    else:
        Path("toy.en").write_text(Path("toy.en").read_text().replace("aao", "bbo"))
        sides = ["--trainpref", "toy", "--validpref", "toy", "--vocab-size", "36", "--overwrite"]
        assert main(["preprocess", "-s", "en", "-t", "de", *sides, "--destdir", "data"]) == 0
    calls.clear()
    assert main(["compare", write(plan)]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert ("its start start was trained anew" if changed == "start" else "other data than data") in error
    assert [call[0] for call in calls] == ["train"] * (changed == "start")


def test_a_start_with_a_seed_is_trained_once(calls: list[list[str]]) -> None:
    starts = {"start": {"arch": "transformer_tiny", "seed": 7}}
    assert main(["compare", write({**PLAN, "starts": starts, "tests": {}, "contrastive": {}})]) == 0
    trained = [call for call in calls if call[0] == "train"]
    assert [call[call.index("--seed") + 1] for call in trained] == ["7", "1", "1", "2", "2"]
    assert {str(Path("out/start/seed-7/model/checkpoint_best.safetensors"))} == {
        call[call.index("--finetune-from-model") + 1] for call in trained[1:]
    }


def test_a_table_holds_what_the_commands_say(calls: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", write(PLAN), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content == json.loads(Path("out/comparison.json").read_text(encoding="utf-8"))
    assert [call[0] for call in calls].count("train") == 6  # a start and two systems, with two seeds
    context = content["systems"]["context"]
    assert context["updates"] == [4]  # with those of its start
    for name in ("sentence", "context"):
        hypotheses = [f"out/{name}/seed-{seed}/toy/hypotheses.txt" for seed in (1, 2)]
        assert main(["score", "--ref", "toy.de", "--sys", *hypotheses, "--metrics", "chrF++", "--json"]) == 0
        scores = json.loads(capsys.readouterr().out)
        assert content["systems"][name]["tests"]["toy"]["seeds"] == scores["seeds"]
    assert {m["metric"] for m in context["tests"]["toy"]["paired"]["metrics"]} >= {"s-BLEU", "chrF++"}
    sentence = content["systems"]["sentence"]  # reads no other sentence
    assert all(metric["difference"] == 0 for metric in sentence["tests"]["toy"]["foreign"]["metrics"])
    assert sentence["contrastive"]["pairs"]["foreign"]["difference"] == 0

    calls.clear()  # nothing is done twice
    assert main(["compare", write(PLAN)]) == 0
    assert {call[0] for call in calls} == {"score"}
    assert not any("--contrastive" in call for call in calls)
    table = capsys.readouterr().out
    assert table == Path("out/comparison.md").read_text(encoding="utf-8")
    assert "| context | start | 4 |" in table

    main(["compare", write({**PLAN, "generate": {"beam": 2, "max_len_a": 0, "max_len_b": 4}})])
    assert [call[0] for call in calls].count("generate") == 8  # other options, other translations


def test_what_was_made_otherwise_is_made_again(calls: list[list[str]]) -> None:
    plan = {**PLAN, "seeds": [1], "starts": {}, "systems": {"only": {"arch": "transformer_tiny"}}}

    def made(**changed: Any) -> list[str]:
        calls.clear()
        status = main(["compare", write({**plan, **changed})])
        return [call[0] for call in calls if call[0] != "score" or "--contrastive" in call] + ["refused"] * bool(status)

    assert made() == ["train", "preprocess", "preprocess", "generate", "generate", "score", "score"]
    assert made() == []
    for _ in range(2):  # once refused, it stays so
        assert made(systems={"only": {"arch": "transformer_tiny", "ffn_dim": 100}}) == ["train", "refused"]
        assert made(generate={"beam": 1, "nbest": 3})[-2:] == ["generate", "refused"]
    assert made() == ["generate"]  # whose record had gone
    Path("out/only/seed-1/toy-foreign/restored.txt").unlink()  # killed before it was written
    assert made() == ["generate"]
    for end in ("en", "de"):
        Path(f"other.{end}").write_text(Path(f"toy.{end}").read_text(encoding="utf-8")[::-1], encoding="utf-8")
    assert made(tests={"toy": "other"}) == ["preprocess", "preprocess", "generate", "generate"]
    Path("others.tsv").write_bytes(Path("pairs.tsv").read_bytes())
    os.utime("others.tsv", (1, 1))
    assert made(tests={"toy": "other"}, contrastive={"pairs": "others.tsv"}) == ["score", "score"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"systems": {"a": {"arch": "x"}, "b": {"arch": "x", "start": "a"}}}, "updates"),
        ({"systems": {"a": {"arch": "x"}, "b": {"arch": "x", "start": "a"}}, "unequal": ["updates"]}, "starts"),
        ({"systems": {"a": {"arch": "x"}, "b": {"arch": "x", "data": "other"}}}, "data"),
        ({"systems": {"a": {"arch": "x", "start": "nobody"}}}, "nobody"),
        ({"systems": {"a": {"arch": "x", "start": "b"}, "b": {"start": "a"}}}, "circle"),
        ({"systems": {"a": {"arch": "x", "save-dir": "y"}}}, "save_dir"),
        ({"train": {}}, "max_update"),
        ({"seeds": [1, 1]}, "seed"),
        ({"metrix": []}, "metrix"),
        ({"tests": {"model": "toy"}}, "model"),
        ({"tests": {"../toy": "toy"}}, "../toy"),
        ({"contrastive": {"toy-foreign": "pairs.tsv"}}, "toy-foreign"),
    ],
)
def test_unfair_and_wrong_plans_are_refused(
    change: dict[str, Any],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", write({**PLAN, **change})]) == 1
    error = capsys.readouterr().err
    assert named in error
    assert "plan.yaml" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("tests", [{"tests": {"toy": "nope"}}, {"contrastive": {"pairs": "toy.en"}}])
def test_tests_are_read_before_anything_is_trained(tests: dict[str, Any], calls: list[list[str]]) -> None:
    assert main(["compare", write({**PLAN, **tests})]) == 1
    assert not calls


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [("  context:", "  sentence:", "'sentence'"), ("max_tokens: 300", "max_tokens: 0300", "0300 is another number")],
)
def test_what_yaml_reads_otherwise_than_it_stands_is_named_with_its_line(
    right: str, wrong: str, complaint: str, calls: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(PLAN)
    text = Path(path).read_text(encoding="utf-8").replace(right, wrong)
    Path(path).write_text(text, encoding="utf-8")
    assert main(["compare", path]) == 1
    line = 1 + max(n for n, row in enumerate(text.splitlines()) if row.strip() == wrong.strip())
    assert f"{path}:{line}: {complaint}" in capsys.readouterr().err
    assert not calls


def test_intervals_are_those_of_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(2)
    solved, others = (rng.random((3, 200)) < share for share in (0.7, 0.6))
    alone = range(200)
    difference, low, high, p_value = sampled_difference(solved.astype(float), others.astype(float), alone)
    per_group = 100 * (solved.mean(0) - others.mean(0))
    spread = per_group.std() / np.sqrt(200)  # the normal approximation
    assert difference == pytest.approx(per_group.mean())
    assert (low, high) == pytest.approx((difference - 1.96 * spread, difference + 1.96 * spread), abs=0.4 * spread)
    assert 0 < p_value < 0.1
    assert sampled_difference(others.astype(float), solved.astype(float), alone)[0] == -difference
    doubled = (np.repeat(answers, 2, axis=1).astype(float) for answers in (solved, others))  # a block has two
    assert sampled_difference(*doubled, np.repeat(alone, 2).tolist()) == pytest.approx((difference, low, high, p_value))
