#!/usr/bin/env python
"""How far a reader has to follow an update, a translation and a request: files, functions and switches of file.

    python tools/trace_calls.py [--arch hier_cond_transformer_tiny] [--list]

Trains three updates on a toy corpus, translates two lines by the public commands, and records every Python function of
docnmt that is entered:

- from text to a batch is docnmt-preprocess in one process, and the first two documents of training as a batch;
- an update lasts from the moment the loop seeds torch to the optimizer's step: the batch, the loss, the gradient;
- a translation is the whole of `docnmt-translate`, from parsing its options to its last line, imports included;
- a request is the second one in DeepL's form to the service, from its first byte to its last, in all threads;
- functions are code objects: methods, lambdas, comprehensions and, where a module is imported, class bodies count; the
  bodies of modules do not;
- a switch is a call that enters another file than the call before it.

`--list` prints each function once, in the order in which it was first entered.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import sys
import tempfile
import threading
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType, SimpleNamespace

import numpy as np
import torch
from anyio.from_thread import start_blocking_portal
from torch.optim.optimizer import register_optimizer_step_pre_hook

import docnmt

PACKAGE = os.path.dirname(os.path.abspath(docnmt.__file__)) + os.sep
WORDS = (
    "the", "a", "dog", "cat", "house", "tree", "sees", "finds", "old", "new", "in", "under", "and", "then", "it", "he",
    "they", "walks", "sleeps", "river",
)  # fmt: skip
TEXT = "The cat sleeps.\nIt walks.\n"


class Recorder:
    """The functions of docnmt that Python enters, in their order."""

    def __init__(self) -> None:
        self.calls: list[CodeType] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            self.calls.append(code)


def row(what: str, calls: list[CodeType]) -> str:
    """One line of the table."""
    switches = sum(one.co_filename != other.co_filename for one, other in pairwise(calls))
    files = len({code.co_filename for code in calls})
    return f"| {what} | {files} | {len(set(calls))} | {len(calls):,} | {switches:,} |"


def corpus(prefix: Path, documents: int, seed: int) -> None:
    """Documents of one to seven sentences; a translation is the source's words spelt backwards."""
    draw = random.Random(seed)
    lines: list[list[str]] = []
    for _ in range(documents):
        lines += [draw.choices(WORDS, k=draw.randint(1, 11)) for _ in range(draw.randint(1, 7))] + [[]]
    for language, words in (("en", lines), ("de", [[word[::-1] for word in line] for line in lines])):
        text = "\n".join(" ".join(line) + "." * bool(line) for line in words[:-1])
        prefix.with_suffix("." + language).write_text(text + "\n", encoding="utf-8")


def prepare(folder: Path) -> tuple[Path, list[CodeType]]:
    """The toy corpus as a data folder, and the calls from its text to a batch of its first documents."""
    from docnmt.cli.preprocess import main
    from docnmt.core.data_options import DocumentTranslationConfig
    from docnmt.core.translation_task import DocumentTranslation
    from docnmt.core.units import ReadingPlan

    for split, documents, seed in (("train", 40, 1), ("valid", 6, 2)):
        corpus(folder / split, documents, seed)
    files = ["--trainpref", str(folder / "train"), "--validpref", str(folder / "valid")]
    recorder = Recorder()
    sys.setprofile(recorder)
    status = main(["-s", "en", "-t", "de", *files, "--destdir", str(folder / "data"), "--vocab-size", "60"])
    if not status:
        task = DocumentTranslation.load(DocumentTranslationConfig(), folder / "data")
        task.dataset("train", SimpleNamespace(reading=ReadingPlan(written=None)), training=True).batch(np.arange(2))
    sys.setprofile(None)
    if status:
        sys.exit("error: docnmt-preprocess failed")
    return folder / "data", recorder.calls


def update(data: Path, run: Path, arch: str) -> list[CodeType]:
    """Train three updates; the calls of the third."""
    from docnmt.cli.train import main

    recorder, seed_torch, seeded = Recorder(), torch.manual_seed, [0]
    spans: list[tuple[int, int]] = []

    def manual_seed(seed: int) -> torch.Generator:
        seeded[0] = len(recorder.calls) - 1  # the function that seeds belongs to the update
        return seed_torch(seed)

    hook = register_optimizer_step_pre_hook(lambda *_: spans.append((seeded[0], len(recorder.calls))))
    torch.manual_seed = manual_seed
    sys.setprofile(recorder)
    try:
        options = ["--max-tokens", "200", "--max-update", "3", "--disable-validation", "--device", "cpu"]
        status = main([str(data), "--arch", arch, *options, "--save-dir", str(run)])
    finally:
        sys.setprofile(None)
        torch.manual_seed = seed_torch
        hook.remove()
    if status or len(spans) != 3:
        sys.exit(f"error: expected 3 updates, got {len(spans)}")
    begin, end = spans[-1]
    return recorder.calls[begin:end]


def translation(folder: Path) -> None:
    """Translate two lines under the recorder: in a process of its own, so that imports are what a user's are."""
    from docnmt.cli.translate import main

    recorder, sys.stdin = Recorder(), io.TextIOWrapper(io.BytesIO(TEXT.encode()))
    sys.setprofile(recorder)
    with contextlib.redirect_stdout(io.StringIO()):
        status = main(["--path", str(folder / "run"), "--device", "cpu"])
    sys.setprofile(None)
    if status:
        sys.exit("error: docnmt-translate failed")
    report("translating two lines", recorder.calls)


def request(folder: Path) -> None:
    """Send two requests under the recorder, and report the second."""
    from starlette.testclient import TestClient

    from docnmt.apps.commands.translating import Translating
    from docnmt.apps.options import MemoryConfig, ModelsConfig, ServeConfig
    from docnmt.apps.serve.routes import build
    from docnmt.apps.serve.service import Service
    from docnmt.core.search.config import BeamSearchConfig, GenerationConfig

    recorder = Recorder()
    threading.setprofile(recorder)
    models = ModelsConfig(path=str(folder / "run"), device="cpu")
    translating = Translating.open(models, MemoryConfig(), GenerationConfig(), BeamSearchConfig())
    service = Service(translating, ServeConfig())
    with start_blocking_portal() as portal:
        client = TestClient(build(service, token=None), base_url="http://localhost")
        client.portal = portal
        for _ in range(2):
            recorder.calls.clear()
            client.post("/v2/translate", json={"text": TEXT.split("\n"), "target_lang": "DE"}).raise_for_status()
    threading.setprofile(None)
    report("a request in DeepL's form", recorder.calls)
    service.worker.stop()


def report(what: str, calls: list[CodeType]) -> None:
    print(row(what, calls), flush=True)
    if "--list" in sys.argv:
        for code in dict.fromkeys(calls):
            print(f"    {code.co_filename.removeprefix(PACKAGE)}:{code.co_firstlineno} {code.co_name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="hier_cond_transformer_tiny")
    parser.add_argument("--list", action="store_true", help="also print the functions")
    parser.add_argument("--translate", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--request", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.translate or arguments.request:
        (translation if arguments.translate else request)(arguments.translate or arguments.request)
        return
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        with contextlib.redirect_stdout(nowhere):  # what goes wrong stands on stderr
            data, prepared = prepare(Path(folder))
            calls = update(data, Path(folder) / "run", arguments.arch)
        print("| | files | functions | calls | switches of file |\n| --- | --- | --- | --- | --- |")
        report("text to a batch", prepared)
        report(f"one update of `{arguments.arch}`", calls)
        sys.stdout.flush()
        for what in ("--translate", "--request"):
            again = [sys.executable, __file__, what, folder, *(["--list"] if arguments.list else [])]
            if os.spawnv(os.P_WAIT, sys.executable, again):
                sys.exit(f"error: the run with {what} failed")


if __name__ == "__main__":
    main()
