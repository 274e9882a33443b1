"""Write data, checkpoints and outputs of the installed version of docnmt, through its public commands.

usage: python make.py FOLDER   (FOLDER is new; run it with the version whose files are to be kept)
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import os
import random
import shutil
import sys
from pathlib import Path

import numpy as np

_VOCABULARY = "the a dog cat house tree sees finds old new in under and then it he they walks sleeps river"
WORDS = _VOCABULARY.split()
SMALL = ["--embed-dim", 16, "--heads", 2, "--ffn-dim", 24]
ONE_LAYER = ["--encoder-layers", 1, "--decoder-layers", 1]
RUN = ["--max-tokens", 300, "--warmup-updates", 4, "--lr", 0.01, "--log-interval", 1, "--device", "cpu"]
#: The update at which the run of `resume` stops; the others go on longer.
RESUMED_AT, LAST = 6, 60
MODELS = {
    "hier_cond": ("data", ["--arch", "hier_cond_transformer_tiny", "--top-t", 2, "--target-context", "conditional"]),
    "concat": ("data", ["--arch", "concat_transformer_tiny", "--source-context", 1, "--target-window", 2]),
    "resume": ("data", ["--arch", "transformer_tiny", "--position", "learned", "--max-positions", 32, *ONE_LAYER]),
    "classifier": ("texts", ["--arch", "fusion_classifier_tiny", "--position-fusion", "gate_conv"]),
    "inferlite": ("pairs", ["--arch", "inferlite", "--hidden-dim", 16, "--output-dim", 32, "--classifier-dim", 16]),
}


def call(command: str, *arguments: object) -> str:
    """What a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = importlib.import_module(f"docnmt.cli.{command}").main([str(argument) for argument in arguments])
    assert status == 0, command
    return out.getvalue()


def sentence(rng: random.Random, longest: int) -> list[str]:
    return rng.choices(WORDS, k=rng.randint(1, longest))


def corpus(prefix: str, documents: int, seed: int) -> list[tuple[str, str]]:
    """A corpus whose target spells every word backwards, with paragraphs."""
    rng, rows = random.Random(seed), []
    for _ in range(documents):
        for number in range(rng.randint(1, 6)):
            words = sentence(rng, 10)
            rows.append((" ".join(words) + ".", " ".join(word[::-1] for word in words) + ".", str(number // 2)))
        rows.append(("", "", ""))
    for ending, column in (("en", 0), ("de", 1), ("levels.tsv", 2)):
        Path(f"{prefix}.{ending}").write_text("".join(row[column] + "\n" for row in rows[:-1]))
    return [(source, target) for source, target, _ in rows if source]


def tables() -> None:
    """Labelled texts and labelled pairs."""
    rng = random.Random(7)
    labels = ("entailment", "neutral", "contradiction")
    for split, size in (("train", 60), ("valid", 15)):
        texts = [f"{rng.choice('ab')}\t{' '.join(sentence(rng, 20))}\n" for _ in range(size)]
        Path(f"texts.{split}.tsv").write_text("".join(texts))
        pairs = [
            f"{rng.choice(labels)}\t{' '.join(sentence(rng, 9))}\t{' '.join(sentence(rng, 9))}\n" for _ in range(size)
        ]
        Path(f"pairs.{split}.tsv").write_text("label\ttext\ttext2\n" + "".join(pairs))


def preprocess() -> None:
    """The three data folders, and a contrastive test set from the test text."""
    corpus("train", 25, 1)
    corpus("valid", 4, 2)
    test = corpus("test", 5, 3)
    sides = ["--trainpref", "train", "--validpref", "valid", "--testpref", "test", "--normalization", "identity"]
    call("preprocess", "-s", "en", "-t", "de", *sides, "--destdir", "data", "--vocab-size", 60)
    rows = ["group\tcorrect\tsrc_context\tsrc\ttgt_context\ttgt"]
    for group, ((before, before_t), (now, now_t)) in enumerate(itertools.pairwise(test)):
        for correct, target in ((1, now_t), (0, "god " + now_t), (0, "tac eht.")):
            rows.append(f"{group}\t{correct}\t{before}\t{now}\t{before_t}\t{target}")
    Path("contrastive.tsv").write_text("\n".join(rows) + "\n")
    tables()
    for task, name in (("text_classification", "texts"), ("nli", "pairs")):
        call(
            "preprocess", "--task", task, "--train", f"{name}.train.tsv", "--valid", f"{name}.valid.tsv",
            "--destdir", name,
        )  # fmt: skip


def outputs() -> dict[str, object]:
    """What the models say, and how training goes on."""
    results: dict[str, object] = {}
    for name in ("hier_cond", "concat"):
        results[name] = call("generate", "data", "--path", f"{name}.safetensors", "--beam", 3, "--scoring", "none")
    judged = call("score", "--contrastive", "contrastive.tsv", "--path", "hier_cond.safetensors", "--json")
    results["contrastive"] = json.loads(judged)
    Path("lines.txt").write_text("".join(" ".join(sentence(random.Random(n), 9)) + "\n" for n in range(6)))
    results["labels"] = call("classify", "--path", "classifier.safetensors", "lines.txt", "--all-probabilities")
    call("embed", "--path", "inferlite.safetensors", "--input", "lines.txt", "--output", "vectors.npy")
    results["vectors"] = np.load("vectors.npy").tolist()
    shutil.copytree("resume", "resumed")
    data, options = MODELS["resume"]
    call("train", data, *options, *SMALL, *RUN, "--save-dir", "resumed", "--max-update", RESUMED_AT + 5)
    lines = [json.loads(line) for line in Path("resumed/train.jsonl").read_text().splitlines()]
    updates = [line for line in lines if line["event"] == "train" and line["update"] > RESUMED_AT]
    results["losses"] = [line["loss"] for line in updates]
    return results


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    os.chdir(folder)
    preprocess()
    for name, (data, options) in MODELS.items():
        small = SMALL if name != "inferlite" else []
        last = RESUMED_AT if name == "resume" else LAST
        call("train", data, *options, *small, *RUN, "--save-dir", name, "--max-update", last)
        if name != "resume":
            shutil.copy(f"{name}/checkpoint_best.safetensors", f"{name}.safetensors")
            shutil.rmtree(name)
    for file in ("checkpoint_best.safetensors", ".lock"):
        Path("resume", file).unlink()
    Path("expected.json").write_text(json.dumps(outputs(), ensure_ascii=False, indent=1) + "\n")
    for path in ("resumed", "texts", "pairs"):
        shutil.rmtree(path)
    kept = ("contrastive.tsv", "lines.txt", "expected.json")
    for file in Path(".").iterdir():
        if file.is_file() and file.name not in kept and file.suffix != ".safetensors":
            file.unlink()


if __name__ == "__main__":
    main()
