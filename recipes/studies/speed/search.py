"""Processor time of docnmt's search in documents: of each architecture, and of requests that share one search.

    python recipes/studies/speed/search.py [--arch NAME[:OPTION=VALUE …] …] [--sentences 60 240 960] [--documents 1]
    python recipes/studies/speed/search.py --documents 60 --sentences 4 --clients 16 64
    python recipes/studies/speed/search.py --path runs/one --text test.en --clients 16

Untrained models translate made-up documents of sentences of 5 to 40 subwords, and write as many for each. With --path
a trained model translates --text, which has an empty line between documents. With --clients every document is also a
request to the search that docnmt-serve's requests share: each client sends its next one when it has its answer. HTTP
and threads are left out. Ways take turns, after a round to warm up.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from peers import in_turns, ratio, sentences, spread, vocabulary

from docnmt.core.corpus import ParallelCorpus
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.generators import Hypothesis
from docnmt.core.search.scheduler import Job, Scheduler
from docnmt.core.search.translate import translate_corpus, translation
from docnmt.core.tokenizer import EOS
from docnmt.core.training.checkpoint import load_model
from docnmt.core.translation_task import DocumentTranslation
from docnmt.registry import ARCHITECTURES, MODELS
from docnmt.runtime.device import tune

VOCABULARY = 8000
#: All documents as one corpus, and each as a corpus of its own.
Corpora = tuple[ParallelCorpus, list[ParallelCorpus]]


def untrained(name: str, task: DocumentTranslation) -> Any:
    """The model of `ARCH:OPTION=VALUE:…`, which ends no sentence before its limit."""
    arch, *changes = name.split(":")
    values = {key: yaml.safe_load(value) for key, _, value in (change.partition("=") for change in changes)}
    architecture = ARCHITECTURES.get(arch)
    config = MODELS.config(architecture.model)(**{**architecture.overrides(), **values})
    model: Any = MODELS.get(architecture.model).build(config, task).eval()
    step = model.step

    def endless(tokens: torch.Tensor, state: object) -> torch.Tensor:
        logits: torch.Tensor = step(tokens, state)
        logits[:, EOS] -= 100.0
        return logits

    model.step = endless
    return model


def command(model: Any, task: Any, corpora: Corpora, options: GenerationConfig, search: Any) -> list[str]:
    """As docnmt-translate does: all documents at once."""
    return [result.text for result in translate_corpus([model], task, corpora[0], options, search)]


@torch.inference_mode()
def service(
    model: Any, task: Any, corpora: Corpora, options: GenerationConfig, search: Any, *, clients: int
) -> list[str]:
    """As docnmt-serve's worker does: a job for each document, so many at once."""
    shared = Scheduler([model], options, search)
    written: list[dict[int, str]] = [{} for _ in corpora[1]]
    waiting = list(zip(corpora[1], written, strict=True))[::-1]

    def job(corpus: ParallelCorpus, texts: dict[int, str]) -> Job:
        def deliver(sentence: int, hypotheses: list[Hypothesis]) -> None:
            texts[sentence] = translation(hypotheses[0], task.target_tokenizer).text

        return Job([model], task, corpus, options, search, given={}, deliver=deliver)

    while waiting or shared.jobs:
        while waiting and len(shared.jobs) < clients:
            shared.submit(job(*waiting.pop()))
        shared.step()
    return [document[n] for document in written for n in range(len(document))]


def compare(models: dict[str, Any], task: Any, documents: list[list[str]], given: argparse.Namespace) -> None:
    """Print a table: each model by the first, and the requests of so many clients by the command of their model."""
    options = GenerationConfig(batch_size=given.batch_size)
    search = BeamSearchConfig(beam=given.beam, **({} if given.path else {"max_len_a": 1.0, "max_len_b": 0}))
    corpora = (
        ParallelCorpus.from_lines(documents, task.source_tokenizer),
        [ParallelCorpus.from_lines([document], task.source_tokenizer) for document in documents],
    )
    ways: dict[str, Callable[[], list[str]]] = {}
    beside: dict[str, str] = {}  # the way → the one that its time is divided by
    for name, model in models.items():
        work = (model, task, corpora, options, search)
        ways[name], beside[name] = partial(command, *work), next(iter(models))
        for clients in given.clients:
            requests = f"{name}, {clients} clients"
            ways[requests], beside[requests] = partial(service, *work, clients=clients), name
    texts: dict[str, list[str]] = {}

    def timed(name: str, _: int) -> float:
        begun = time.process_time()
        texts[name] = ways[name]()
        return time.process_time() - begun

    seconds = in_turns({name: partial(timed, name) for name in ways}, given.repeats)
    count = sum(map(len, documents))
    print(f"\n{count:,} sentences in {len(documents):,} documents\n")
    print("| search | sentences a second | its time | by that of | same translations |")
    print("| --- | ---: | ---: | --- | ---: |")
    for name, taken in seconds.items():
        other = beside[name]
        same = sum(map(str.__eq__, texts[name], texts[other]))
        print(f"| {name} | {spread([count / cost for cost in taken], 1)} | {ratio(taken, seconds[other])} | {other} | "
              f"{same / count:.0%} |", flush=True)  # fmt: skip


def main() -> None:
    """Parse, make or read models and texts, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", default=["transformer_small", "hier_cond_transformer_small"])
    parser.add_argument("--sentences", nargs="+", type=int, default=[60, 240, 960], help="of each document")
    parser.add_argument("--documents", type=int, default=1)
    parser.add_argument("--path", type=Path, metavar="CKPT", help="a trained model instead; needs --text")
    parser.add_argument("--text", type=Path, metavar="FILE", help="its documents")
    parser.add_argument("--clients", nargs="+", type=int, default=[], help="whose requests share a search")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if bool(options.path) != bool(options.text):
        parser.error("--path and --text come together")
    print(tune())
    if options.path:
        loaded = load_model(options.path)
        text = re.split(r"\n\n+", options.text.read_text(encoding="utf-8").strip("\n"))
        compare({str(options.path): loaded.model}, loaded.task, [document.split("\n") for document in text], options)
        return
    tokenizer = vocabulary(VOCABULARY)
    task = DocumentTranslation(DocumentTranslationConfig(), languages=("en", "de"), tokenizers=(tokenizer, tokenizer))
    models = {name: untrained(name, task) for name in options.arch}
    for length in options.sentences:
        lines = sentences(options.documents * length, VOCABULARY, (5, 40), 0)
        compare(models, task, [lines[n : n + length] for n in range(0, len(lines), length)], options)


if __name__ == "__main__":
    main()
