"""Every command in the README and the docs is run, or at least read by the parser that would run it."""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn
from unittest import mock

import multilingual_models
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import sample_documents
import small_system
import torch
from documented import ROOT, SCRIPTS, Shown, files, inside, options, run, shown
from parallel_text import ParallelText
from served import serve

from docnmt.modules.linear_layers import multiplies_eight_bits

#: What makes a command small without changing what it shows.
TINY = "--embed-dim 16 --heads 2 --ffn-dim 24 --encoder-layers 1 --decoder-layers 1 --max-update 2"
SHORT = "--max-len-a 0.5 --max-len-b 4"  # untrained models write as long as they may
SMALL = {
    "docnmt-preprocess": {"document_translation": ["--vocab-size", "80"]},
    "docnmt-generate": {"document_translation": SHORT.split()},
    "docnmt-translate": {"document_translation": SHORT.split()},
    "docnmt-compare": {"document_translation": ["--dry-run"]},  # test_compare.py does it all
    "docnmt-train": {
        "document_translation": TINY.split(),
        "text_classification": ["--max-update", "2"],
        "nli": ["--hidden-dim", "16", "--output-dim", "32", "--max-update", "2"],
        "character_lm": ["--max-update", "2"],
        "letters": ["--max-update", "2"],
    },
}

COMMANDS = [command for command in shown() if command.page != "docs/results/index.md"]  # of hours, not run
#: Of each command the last page on which it stands.
LAST = {tuple(command.words): command.page for command in COMMANDS}
PAGES = sorted({command.page for command in COMMANDS})


#: Small files that pages take for granted.
FILES = {
    "document.txt": "The letter. A lamp.\n\nThe window.\n",
    "some.de": "LETTER THE. LAMP A.\n\n\n",
    "begins.de": "LETTER\n\n\n",
    "terms.tsv": "lamp\tLAMP\n",
    "song.lrc": "[ar:Nobody]\n[00:12.30] The letter.\n[00:15.00] A lamp.\n",
    "ANY_TEXT": "the cat sat on the mat\n" * 20,
    "OTHER_TEXT": "the cat sat on the mat\n" * 20,
    "contrastive.tsv": "group\tcorrect\tsrc_context\tsrc\ttgt_context\ttgt\n"
    "1\t1\tA lamp.\tIt.\tLAMP A.\tIT.\n1\t0\tA lamp.\tIt.\tLAMP A.\tNO.\n",
    "contrapro.tsv": "group\tcorrect\tpronoun\tctx_en\tsrc_en\tctx_de\ttgt_de\n"
    "0\t1\tes\tA lamp.\tIt.\tEINE LAMPE.\tES.\n",
    "references.de": "ES.\n",
    "questions.tsv": "expected\tsrc_context\tsrc\nit\tA lamp.\tIt.\n",
    "answers-to-questions.txt": "IT.\n",
    "texts.txt": "a b c\nc b a\n",
    "corpus.txt": "the dog runs .\nthe cat sleeps .\n",
    "questions.txt": "the dog runs .\nthe cat sleeps .\n",
}


#: Copies of a corpus in `text`.
COPIED = {"test": "test", "raw": "test", "text/news": "train", "text/talks": "valid", "text/foreign": "test"}
COPIED |= {f"corpora/msctd/{split}": name for split, name in (("train", "train"), ("dev", "valid"), ("test", "test"))}


@pytest.fixture(scope="module")
def furnished(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A folder with a corpus, its data folder, a model, and every file that a page takes for granted."""
    return made_once("documented", furnish)


def furnish(folder: Path) -> None:
    (folder / "text").mkdir()
    text = ParallelText(folder / "text")
    for language in ("en", "de"):
        shutil.copy(text.path(f"dev.{language}"), text.path(f"valid.{language}"))
    for language, lines in (("en", "with you and you\n" * 2), ("de", "mit dir und dir\nmit Ihnen und Ihnen\n")):
        with text.path(f"train.{language}").open("a", encoding="utf-8") as file:
            file.write("\n" + lines * 40)  # both forms of address, for the pages that train with them
    for name in ("examples", "recipes", "tools"):
        (folder / name).symlink_to(ROOT / name)
    (made,) = (listed for listed in COMMANDS if listed.page == "README.md" and listed.words[0] == "docnmt-preprocess")
    with inside(folder):
        assert run(small(made)) == 0
        for name in ("documents", "news", "DATA"):
            shutil.copytree("data-bin", name)
        model = "docnmt-train data-bin --arch hier_cond_transformer_small --save-dir runs/one"  # as the guides call it
        assert run([*model.split(), *TINY.split()]) == 0
    for name in ("documents", "news"):
        (folder / name).rename(folder / "data-bin" / name)
    (folder / "corpora/msctd").mkdir(parents=True)
    (folder / "sentences").mkdir()
    for side in ("en", "de"):
        for copy, name in COPIED.items():
            shutil.copy(folder / f"text/{name}.{side}", folder / f"{copy}.{side}")
        lines = (folder / f"text/train.{side}").read_text(encoding="utf-8").split("\n")
        text_of_lines = "\n\n".join(line for line in lines if line) + "\n"
        (folder / f"sentences/train.{side}").write_text(text_of_lines, encoding="utf-8")
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    shutil.copy(folder / "contrastive.tsv", folder / "text")
    guide = (ROOT / "docs/guide/compare.md").read_text(encoding="utf-8")
    (folder / "comparison.yaml").write_text(guide.split("```")[1].removeprefix("yaml\n"), encoding="utf-8")
    (folder / "DIR").mkdir()
    for name in ("letter.docx", "manual.md", "messages.po", "DIR/page.html", "contract.en.docx", "contract.de.docx"):
        (folder / name).write_bytes(sample_documents.content(name.rpartition(".")[2]))
    evaluation(folder)
    pretrained(folder)
    tables(folder)
    classification(folder)
    sentence_vectors(folder)


@pytest.fixture
def workplace(furnished: Path, tmp_path: Path) -> Path:
    """A copy of `furnished` for one page, whose commands write there."""
    return Path(shutil.copytree(furnished, tmp_path / "work", symlinks=True))


Elsewhere = Callable[[str], int]
#: Imports what commands need, once, and runs each piece of code in a folder in a copy of this process.
COPIES = """
import json, os, sys, traceback
import documented, pytest
import docnmt.cli.train, docnmt.apps.commands.generate, docnmt.apps.commands.translate, docnmt.core.translation_task
for line in sys.stdin:
    folder, code = json.loads(line)
    if (child := os.fork()) == 0:
        os.chdir(folder)
        sys.path.insert(0, "mine")
        log = os.open("elsewhere.log", os.O_CREAT | os.O_WRONLY)
        os.dup2(log, 1), os.dup2(log, 2)
        status = 1
        try:
            exec(code)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    """Runs code in this folder in a process of its own; its exit status."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", COPIES], env=environment, **pipes) as process:  # type: ignore[call-overload]

        def run(code: str) -> int:
            process.stdin.write(json.dumps([os.getcwd(), code]) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield run


def evaluation(folder: Path) -> None:
    """Documents in lines of their own, another system, and questions of discourse with their answers."""
    documents = (folder / "test.de").read_text(encoding="utf-8").strip().split("\n\n")
    (folder / "answers.txt").write_text("\n\n".join(" ".join(text.split("\n")) for text in documents), encoding="utf-8")
    for name in ("other", "true", "sentence", "foreign"):
        shutil.copy(folder / "test.de", folder / f"{name}.txt")
    reference = [
        {"document_id": n, "target": line} for n, text in enumerate(documents) for line in text.split("\n") if line
    ]
    answers = [
        {"document_id": n, "hypothesis": text.replace("\n", "\n\n", 1)} for n, text in reversed([*enumerate(documents)])
    ]
    for name, rows in (("test.jsonl", reference), ("answers.jsonl", answers)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    entry = {"expected": "it", "src segment": "It.", "ref segment": "IT.", "rule": "X"}
    for part in ("jsons", "outputs"):
        (folder / "ctxpro/paper" / part).mkdir(parents=True)
    for name in ("auxiliary", "mini.formality"):
        test_set = f"{name}.opensubtitles.en-de.test"
        (folder / f"ctxpro/paper/jsons/{test_set}.json").write_text(json.dumps([entry]), encoding="utf-8")
        for kind in ("sentences", "contexts"):
            (folder / f"ctxpro/paper/outputs/deepl.{test_set}.{kind}").write_text("IT.\n", encoding="utf-8")


def pretrained(folder: Path) -> None:
    """A Marian model and one of NLLB, small enough to train on."""
    sizes = {"embed_dim": 16, "heads": 2, "ffn_dim": 24, "encoder_layers": 1, "decoder_layers": 1}
    kind = {"norm": "post", "activation": "swish", "output_bias": True, "position_fusion": "add"}
    own = small_system.random_checkpoint(folder / "own.safetensors", **sizes, **kind)
    with inside(folder):
        assert run(["docnmt-convert", str(own), "opus-mt-en-de", "--to", "hf-marian"]) == 0
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder")
             for name, size in (("attention_heads", 2), ("ffn_dim", 24))}  # fmt: skip
    one = {"encoder_layers": 1, "decoder_layers": 1}
    multilingual_models.write(folder / "nllb-200", family="nllb", d_model=16, **one, **sides)


def tables(folder: Path) -> None:
    """The training corpus in tables, and rows to translate."""
    lines = [(folder / f"text/train.{side}").read_text(encoding="utf-8").split("\n") for side in ("en", "de")]
    rows = [
        {"id": n // 5, "text": one, "text_de": other} for n, (one, other) in enumerate(zip(*lines, strict=True)) if one
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "corpus.parquet")
    known = [dict(zip(("document_id", "source", "target"), row.values(), strict=True)) for row in rows]
    text = "".join(json.dumps(row) + "\n" for row in known)
    for name in ("corpus.jsonl", "en-de_DE.jsonl"):
        (folder / name).write_text(text if name == "corpus.jsonl" else text[: text.index("\n") + 1], encoding="utf-8")
    bare = "".join("\t".join(map(str, row.values())) + "\n" for row in rows)
    (folder / "dev.tsv.gz").write_bytes(gzip.compress(bare.encode()))


def classification(folder: Path) -> None:
    """Tables of labelled texts."""
    draw = np.random.default_rng(1)
    for name in ("train", "valid", "test"):
        rows = [f"{draw.choice(['good', 'bad'])}\t{' '.join(draw.choice(['a', 'b', 'c'], 9))}\n" for _ in range(60)]
        (folder / f"{name}.tsv").write_text("".join(rows), encoding="utf-8")


def sentence_vectors(folder: Path) -> None:
    """Labelled pairs, word vectors, sentences and one task of SentEval."""
    words, draw = ["the", "dog", "cat", "runs", "sleeps", "."], np.random.default_rng(1)
    labels = ["entailment", "neutral", "contradiction"]
    for name in ("snli_train", "multinli_train", "snli_dev"):
        rows = [
            {"gold_label": labels[i % 3], "sentence1": " ".join(draw.choice(words, 4)), "sentence2": "the cat sleeps ."}
            for i in range(60)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    vectors = {word: draw.normal(size=8).astype(np.float32) for word in words}
    text = "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items())
    (folder / "glove.840B.300d.txt").write_text(text, encoding="utf-8")
    binary = b"".join(word.encode() + b" " + vector.tobytes() + b"\n" for word, vector in vectors.items())
    (folder / "GoogleNews-vectors-negative300.bin").write_bytes(b"%d 8\n" % len(vectors) + binary)
    (folder / "senteval" / "STS13").mkdir(parents=True)
    for name in ("FNWN", "headlines", "OnWN"):
        rows = [f"{i % 6}\tthe dog runs .\t{' '.join(draw.choice(words, 4))}\n" for i in range(12)]
        (folder / f"senteval/STS13/{name}.tsv").write_text("score\ttext\ttext2\n" + "".join(rows), encoding="utf-8")


def small(command: Shown) -> list[str]:
    """The words of a command, with options that make it small."""
    words = command.words
    data = Path(words[1]) / "meta.json" if words[0] == "docnmt-train" else Path("nowhere")
    task = json.loads(data.read_text(encoding="utf-8"))["task"] if data.exists() else "document_translation"
    if "--task" in words:
        task = words[words.index("--task") + 1]
    more = [] if "--list" in words else SMALL.get(words[0], {}).get(task, [])
    if words[0] == "docnmt-senteval":
        more = ["--tasks", "STS13"]  # the others are as many trainings
    at = next((i for i, word in enumerate(words) if word in "<>"), len(words))
    return [*words[:at], *more, *words[at:]]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_one_after_the_other(page: str, workplace: Path, elsewhere: Elsewhere) -> None:
    """What other pages run as well, behind all that is this page's own, is only read."""
    chosen = [command for command in COMMANDS if command.page == page]
    while chosen and LAST[tuple(chosen[-1].words)] != page:
        read(chosen.pop())
    if any(("--destdir", "data-bin") in itertools.pairwise(command.words) for command in chosen):
        shutil.rmtree(workplace / "data-bin")  # the page makes its own
        shutil.rmtree(workplace / "runs")
    own = files(page)
    for path, text in own.items():
        (workplace / path).parent.mkdir(exist_ok=True)
        (workplace / path).write_text(text, encoding="utf-8")
    with inside(workplace):
        if own:  # plug-ins that other tests must not see
            run_elsewhere(chosen, elsewhere)
            return
        for command in chosen:
            if command.words[0] == "docnmt-serve":
                with serve(Path("serve.log").absolute(), *command.words[1:]) as served, served.client() as client:
                    assert client.get("/ready").status_code == 200, command
            elif "--int8" in command.words and not multiplies_eight_bits():  # then refused, as the page says
                assert run(command.words[: command.words.index("<")]) == 2, command
            elif "ctranslate2" in command.words and find_spec("ctranslate2") is None:
                pytest.skip(f"{command}: needs ctranslate2")
            elif "onnx" in command.words and find_spec("onnxscript") is None:
                pytest.skip(f"{command}: needs docnmt[convert]")
            elif "onnx" in command.words:  # the files, which torch takes long to write: test_convert_onnx
                with mock.patch.object(torch.onnx, "export") as export:
                    assert run(small(command)) == 0, command
                assert export.call_count == 2, command  # the encoder and a step
            elif command.words[0] in SCRIPTS:
                assert run(small(command)) == 0, command
            elif command.words[0] in ("mkdir", "cp"):
                subprocess.run(["bash", "-ec", command.text], check=True)
            else:
                read(command)


def run_elsewhere(commands: list[Shown], elsewhere: Elsewhere) -> None:
    """Run the commands of a page, and its pytest, in a process of their own."""
    work = ["import documented, pytest"]
    for command in commands:
        words = command.words
        if words[0] in SCRIPTS:
            work.append(f"assert documented.run({small(command)!r}) == 0")
        elif words[0] in ("mkdir", "cp"):
            subprocess.run(["bash", "-ec", command.text], check=True)
        elif words[:3] == ["python", "-m", "pytest"] and Path(words[-1]).exists():
            work.append(f"assert pytest.main(['-q', '-p', 'no:cacheprovider', {words[-1]!r}]) == 0")
        else:
            read(command)
    assert elsewhere("\n".join(work)) == 0, Path("elsewhere.log").read_text(encoding="utf-8")


def read(command: Shown) -> None:
    """Let the parser read a command, and not run it."""
    words = command.words
    if words[0] in SCRIPTS:
        unknown = {word.partition("=")[0] for word in words if word.startswith("-")} - options(words)
        assert not unknown, command
    elif words[0] == "python" and words[1].endswith(".py"):
        parse([*itertools.takewhile(lambda word: word != ">", words[1:])], command)
    elif words[:2] == ["python", "-m"]:
        assert words[2] in ("pytest", "venv", "pip"), command
        assert all((ROOT / word).exists() for word in words[3:] if word.startswith("tests/")), command
    elif words[0] == "bash" or words[0].endswith(".sh"):
        # a recipe takes an hour or more, and tools/test.sh would run this test: only their syntax is read
        subprocess.run(["bash", "-n", ROOT / (words[1] if words[0] == "bash" else words[0])], check=True)
    else:
        assert words[0] in ("git", "pip", "ruff", "mypy", "pre-commit"), f"{command}: who tests this?"


def parse(words: list[str], command: Shown) -> None:
    """Let a script of tools/ parse its arguments and no more."""

    class Parsed(BaseException):
        """The arguments were good."""

    real = argparse.ArgumentParser.parse_args

    def parse_args(self: argparse.ArgumentParser, *arguments: object) -> NoReturn:
        real(self, *arguments)  # type: ignore[call-overload]
        raise Parsed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
        patch.setattr(sys, "argv", [word for word in words if word != "…"])
        patch.setattr(sys, "path", [str((ROOT / words[0]).parent), *sys.path])
        try:
            runpy.run_path(str(ROOT / words[0]), run_name="__main__")
        except Parsed:
            return
        except ModuleNotFoundError as error:
            pytest.skip(f"{words[0]} needs {error.name}")
        except SystemExit as error:
            pytest.fail(f"{command}: {words[0]} refuses these arguments ({error})")
    pytest.fail(f"{command}: {words[0]} parses no arguments")
