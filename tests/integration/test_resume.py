"""A run in parts is the run in one, bit for bit: log, weights, moments; and options that do not go are refused by name.

Further kinds of runs beside what they change: `test_finetune`, `test_one_sided`, `test_training`, `test_ema`.
"""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest
from toy import assert_same_checkpoint, log
from trainings import LAST, SMALL

from docnmt.cli.preprocess import main as preprocess
from docnmt.cli.train import main as train

NOISE = "--source-mask 0.3 --subword-sampling 0.3 --r-drop 1"
CASES = {
    "float32": "transformer --no-bf16 --weight-decay 0.1",
    "bfloat16": "hier_cond_transformer --bf16 --force-bf16 --top-t 1 --read-all-updates 3",
    "own text, by BLEU": "hier_cond_transformer --target-context conditional --context-word-dropout 0.1 "
    "--best-checkpoint-metric bleu",
    "sentences of documents": "transformer --unit-sentences 0 --max-doc-tokens 60",
    "parts of documents": "hier_cond_transformer --unit-sentences 2 --bf16 --force-bf16",
    "noise": f"hier_cond_transformer {NOISE} --context-word-dropout 0.2 --context-dropout 0.3 --resolutions 2 0",
    "noise in windows": f"concat_transformer {NOISE} --context-word-dropout 0.2",
    "two corpora": "doc_transformer --resolutions 1 2 0 --mix-data OTHER=1.5",
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_resumes_bit_for_bit(data: Path, other: Path, tmp_path: Path, case: str) -> None:
    options = CASES[case].replace("OTHER", str(other)).split()
    command = [str(data), *SMALL.split(), "--max-tokens", "300", "--log-interval", "2", "--arch", *options]
    end, early = ["--max-epoch", "2"], [] if "bleu" in options else [["--max-update", "2"]]  # it might be the best
    for run, limits in (("whole", [end]), ("parts", [*early, ["--max-epoch", "1"], end])):
        for limit in limits:
            assert train([*command, "--save-dir", str(tmp_path / run), *limit]) == 0
    lines, parts = (log(tmp_path / run, ["train", "epoch"]) for run in ("whole", "parts"))
    assert lines == parts
    assert_same_checkpoint(tmp_path / "whole" / LAST, tmp_path / "parts" / LAST)
    if "--r-drop" in options:
        assert all(line["divergence"] > 0 for line in lines if line["event"] == "train")
    if "bleu" in options:
        assert all("bleu" in line for line in log(tmp_path / "whole", ["valid"]))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("transformer --context-word-dropout 0.1", "--context-word-dropout"),
        ("transformer --r-drop 1 --dropout 0", "--r-drop"),
        ("transformer --r-drop 1 --criterion cross_entropy", "--r-drop"),
        ("concat_transformer --target-window 2 --context-word-dropout 0.1", "--context-word-dropout"),
        ("transformer --resolutions 1 0", "--resolutions"),
        ("concat_transformer --resolutions 2", "--resolutions"),
        ("doc_transformer --resolutions 2 2", "--resolutions"),
        ("transformer --max-doc-tokens 50", "--max-doc-tokens"),
        ("doc_transformer --unit-sentences 2", "--unit-sentences"),
        ("concat_transformer --unit-sentences 0", "--unit-sentences"),
        ("cond_transformer --unit-sentences 2 --resolutions 1", "--resolutions"),
        ("doc_transformer --target-context none", "--target-context"),
        ("doc_transformer --position rope --levels 2", "--levels"),
        ("doc_transformer --position-fusion none --levels 4", "--levels"),
        ("scaleformer --relative-horizon 0 --no-cross-relative", "--no-cross-relative"),
        ("concat_transformer --source-context 0 --no-source-breaks", "--no-source-breaks"),
        ("doc_transformer --eval-bleu-beam 4", "--eval-bleu-beam"),
        ("doc_transformer --disable-validation --eval-bleu-beam 4", "--eval-bleu-beam"),
        ("doc_transformer --disable-validation --patience 2", "--patience"),
        ("doc_transformer --disable-validation --lr-scheduler plateau", "--lr-scheduler"),
        ("doc_transformer --mix-data OTHER=0", "--mix-data"),
        ("doc_transformer --mix-data OTHER=much", "--mix-data"),
        ("doc_transformer --mix-data nothing", "nothing"),
        ("doc_transformer --mix-data REVERSED", "reversed"),
        ("doc_transformer --mix-data FOREIGN", "foreign"),
    ],
)
def test_what_does_not_go_together_is_refused(
    data: Path, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, named: str
) -> None:
    """In one line, and nothing is written. What is out of its range: `test_rules`."""
    files = ["--trainpref", str(data.parent / "train"), "--destdir"]
    if "FOREIGN" in options:  # another vocabulary
        pair = ["--source-lang", "en", "--target-lang", "de", "--vocab-size", "50"]
        assert preprocess([*pair, *files, str(tmp_path / "foreign")]) == 0
    if "REVERSED" in options:
        pair = ["--source-lang", "de", "--target-lang", "en", "--srcdict", str(data)]
        assert preprocess([*pair, *files, str(tmp_path / "reversed")]) == 0
    made = {"OTHER": other, "FOREIGN": tmp_path / "foreign", "REVERSED": tmp_path / "reversed"}
    words = reduce(lambda text, name: text.replace(name, str(made[name])), made, options).split()
    capsys.readouterr()
    assert train([str(data), *SMALL.split(), "--save-dir", str(tmp_path / "run"), "--arch", *words]) != 0
    assert named in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (tmp_path / "run").exists()
