"""Two processes train what one trains with twice as many batches an update: for every architecture, criterion and task.

All trainings of two ranks run in one job, because starting it takes longer than they do.
"""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from parallel_text import ParallelText
from rank_jobs import Result, run_jobs
from toy import log

from docnmt.cli import preprocess, train
from docnmt.core.training.checkpoint import load_checkpoint
from docnmt.registry import MODELS

TRANSLATION = {
    "transformer": "", "copy_transformer": "", "hier_transformer": "", "cond_transformer": "--top-t 2",
    "hier_cond_transformer": "--merge source2token", "concat_transformer": "--source-context 1 --target-window 2",
    "doc_transformer": "", "scaleformer": "", "g_transformer": "", "han_encoder": "", "han": "",
}  # fmt: skip
PAIRS = {
    "inferlite": "--hash-bits 16 --hidden-dim 8 --output-dim 16", "bag_of_words": "", "bilstm_max": "--output-dim 16",
    "source2token_encoder": "--embed-dim 16 --heads 2 --ffn-dim 24 --encoder-layers 1",
}  # fmt: skip
SMALL = "--embed-dim 16 --heads 2 --ffn-dim 24 --encoder-layers 1 --decoder-layers 1 --max-tokens 250"
#: Beside the architectures: criteria, and what draws random numbers.
MORE = {
    "cross_entropy": "--arch transformer --criterion cross_entropy",
    "r_drop": "--arch transformer --r-drop 2 --dropout 0.2",
    "mix": "--arch transformer --mix-data {folder}/data=0.5",
    "resolutions": "--arch doc_transformer --resolutions 1 2 0",
    "subwords": "--arch transformer --subword-sampling 0.1",
    "bf16": "--arch hier_cond_transformer --bf16 --force-bf16",
    "checkpointing": "--arch cond_transformer --position-fusion add --checkpoint-activations",
    "bleu": "--arch transformer --eval-metrics",
    "three": "--arch transformer --max-tokens 60",
}

SHARDED = ["transformer", "hier_cond_transformer", "copy_transformer", "r_drop", "checkpointing", "three", "inferlite"]
CASES = [*TRANSLATION, *MORE, *PAIRS, "fusion_classifier"]
TRAINED = [*(("two", case) for case in CASES), *(("sharded", case) for case in SHARDED)]
#: Some of each kind, which are trained in every run; `--slow` trains all.
ALWAYS = {
    "transformer", "cond_transformer", "hier_cond_transformer", "r_drop", "mix", "resolutions", "checkpointing",
    "three", "inferlite", "fusion_classifier",
}  # fmt: skip


def always(kind: str, case: str) -> bool:
    """Whether a training is one of those; of two that are sharded alike, `transformer` and `three`, one is."""
    return case in ALWAYS and (kind, case) != ("sharded", "transformer")


PARAMETERS = [
    pytest.param(kind, case, marks=() if always(kind, case) else pytest.mark.slow, id=f"{kind}-{case}")
    for kind, case in TRAINED
]


class Jobs(NamedTuple):
    """What became of two ranks' trainings (`two/CASE`, `sharded/CASE`), and of commands with one process's models."""

    folder: Path
    trained: dict[str, Result]
    used: dict[str, Result]


def pairs(folder: Path) -> Path:
    draw, words = random.Random(0), ["dog", "cat", "runs", "sleeps", "house", "tree", "big", "small"]

    def row() -> str:
        texts = [" ".join(draw.choices(words, k=draw.randint(2, 7))) for _ in range(2)]
        return "\t".join([draw.choice(["entailment", "neutral", "contradiction"]), *texts])

    for split, count in (("train", 40), ("valid", 10)):
        rows = [row() for _ in range(count)]
        (folder / f"{split}.tsv").write_text("\n".join(["label\ttext\ttext2", *rows]) + "\n")
        (folder / f"{split}.labels.tsv").write_text("".join("\t".join(line.split("\t")[:2]) + "\n" for line in rows))
    splits = [f"--{split}={folder / split}.tsv" for split in ("train", "valid")]
    assert preprocess.main(["--task", "nli", *splits, f"--destdir={folder / 'nli'}"]) == 0
    splits = [f"--{split}={folder / split}.labels.tsv" for split in ("train", "valid")]
    assert preprocess.main(["--task", "text_classification", *splits, f"--destdir={folder / 'labels'}"]) == 0
    return folder


def cases(folder: Path) -> dict[str, list[str]]:
    common = ["--max-update", "3", "--lr", "0.01", "--warmup-updates", "1", "--log-interval", "1", "--device", "cpu"]
    data, found = str(folder / "data"), {}
    for arch, options in TRANSLATION.items():
        found[arch] = [data, "--arch", arch, *SMALL.split(), *options.split(), *common]
    for case, options in MORE.items():
        found[case] = [data, *SMALL.split(), *common, *options.format(folder=folder).split()]
    pair = "--max-tokens 60 --classifier-dim 16"
    for arch, options in PAIRS.items():
        found[arch] = [str(folder / "nli"), "--arch", arch, *pair.split(), *options.split(), *common]
    small = "--arch fusion_classifier --max-tokens 60 --embed-dim 16 --heads 2 --ffn-dim 24 --encoder-layers 1"
    found["fusion_classifier"] = [str(folder / "labels"), *small.split(), *common]
    return found


def uses(folder: Path, name: str) -> dict[str, list[str]]:
    """Commands that use trained models; what they write is called by `name`."""
    contrastive = folder / "contrastive.tsv"
    rows = [(n // 2, n % 2, "the lamp", f"river {n // 2}", "LAMP THE", f"{n} RIVER") for n in range(12)]
    head = ["group", "correct", "src_context", "src", "tgt_context", "tgt"]
    contrastive.write_text("".join("\t".join(map(str, row)) + "\n" for row in [head, *rows]))
    lines = folder / "lines.txt"
    lines.write_text("".join(f"dog {'runs ' * (n % 5)}{n}\n" for n in range(9000)))  # three portions
    models = folder / "one"
    small = ["--max-tokens", "60", "--beam", "2", "--max-len-a", "0.5", "--max-len-b", "4"]
    embed = ["embed", "--path", f"{models}/inferlite", "--input", str(lines)]
    return {
        "search": ["generate", f"{folder}/data", "--path", f"{models}/hier_cond_transformer", *small,
                   "--results-path", f"{folder}/{name}.results"],
        "ensemble": ["generate", f"{folder}/data", "--path", f"{models}/transformer:{models}/r_drop", "--nbest", "2",
                     "--gen-subset", "valid", *small],
        "contrastive": ["score", "--contrastive", str(contrastive), "--path", f"{models}/cond_transformer", "--json"],
        "vectors": [*embed, "--output", f"{folder}/{name}.npy"],
        "codes": [*embed, "--codes", "--output", f"{folder}/{name}.codes.npy"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def jobs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    folder = tmp_path_factory.mktemp("ranks")
    slow = request.config.getoption("--slow")
    trainings = [(kind, case) for kind, case in TRAINED if slow or always(kind, case)]
    text = ParallelText(folder)
    assert text.preprocess("--vocab-size", "80") == 0
    pairs(folder)
    words = cases(folder)
    for case in dict.fromkeys(case for _, case in trainings):
        assert train.main([*words[case], "--update-freq", "2", "--save-dir", str(folder / "one" / case)]) == 0, case
    more = {"two": [], "sharded": ["--shard"]}
    shared = [["train", *words[case], *more[kind], "--save-dir", str(folder / kind / case)] for kind, case in trainings]
    results = iter(run_jobs(folder, 2, [*shared, *uses(folder, "two").values()]))
    trained = {f"{kind}/{case}": next(results) for kind, case in trainings}
    return Jobs(folder, trained, {case: next(results) for case in uses(folder, "")})


@pytest.mark.parametrize(("kind", "case"), PARAMETERS)
def test_two_ranks_train_what_one_does(jobs: Jobs, kind: str, case: str) -> None:
    result = jobs.trained[f"{kind}/{case}"]
    assert result.status == 0
    one, two = (log(jobs.folder / name / case) for name in ("one", kind))
    assert len(one) == len(two) >= 4
    for line, other in zip(one, two, strict=True):
        other.pop("idle", None)
        assert line.pop("event") == other.pop("event")
        assert other == pytest.approx(line, rel=1e-6, abs=1e-9)
    assert len(result.digests) == 2
    assert len(set(result.digests)) == (1 if kind == "two" else 2)  # the same bits in every rank, or other parts
    last = f"{case}/checkpoint_last.safetensors"
    first, second = (load_checkpoint(jobs.folder / name / last) for name in ("one", kind))
    assert first.tensors.keys() == second.tensors.keys()
    for name, tensor in first.tensors.items():
        if not name.endswith(("qkv.bias", "key_value.bias")):  # without gradient: noise, which Adam makes large
            torch.testing.assert_close(second.tensors[name], tensor, rtol=1e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize("case", ["search", "ensemble", "contrastive", "vectors", "codes"])
def test_two_ranks_write_what_one_does(jobs: Jobs, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder, (command, *words) = jobs.folder, uses(jobs.folder, "one")[case]
    assert importlib.import_module(f"docnmt.cli.{command}").main(words) == jobs.used[case].status == 0
    assert jobs.used[case].out == capsys.readouterr().out
    for file in {"vectors": [".npy"], "codes": [".codes.npy"], "search": [".results/hypotheses.txt"]}.get(case, []):
        assert (folder / f"two{file}").read_bytes() == (folder / f"one{file}").read_bytes()


def test_no_architecture_is_missing() -> None:
    built_in = {name for name in MODELS.names() if MODELS.get(name).__module__.startswith("docnmt.")}
    tested = {*TRANSLATION, *PAIRS, "fusion_classifier"}
    assert built_in <= tested <= set(MODELS.names())
