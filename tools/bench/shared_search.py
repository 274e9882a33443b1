"""The search that docnmt-serve's requests share, against the command's: sentences a second of processor time.

    python tools/bench/shared_search.py --path runs/one --text test.en [--clients 16 64]

Every document is a request; each client sends its next one when it has its answer. HTTP and threads are left out. With
`--arch` an untrained model of the same vocabulary translates, as many subwords as each source sentence has. Ways take
turns; the best of the repeats counts.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from docnmt.apps.commands.models import open_models
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.ensemble import Ensemble
from docnmt.core.search.job import Job
from docnmt.core.search.scheduler import Scheduler
from docnmt.core.search.translate_corpus import translate_corpus, translation
from docnmt.registry import (
    ARCHITECTURES,
    MODELS,
    builtin,  # noqa: F401
)
from docnmt.runtime.tuning import tune


class Untrained(torch.nn.Module):
    """A model that ends no sentence before its limit."""

    def __init__(self, arch: str, task: Any) -> None:
        super().__init__()
        architecture = ARCHITECTURES.get(arch)
        config = MODELS.config(architecture.model)(**architecture.overrides())
        self.model: Any = MODELS.get(architecture.model).build(config, task).eval()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.model, name)

    def step(self, tokens: torch.Tensor, state: Any) -> torch.Tensor:
        """As the model's."""
        logits: torch.Tensor = self.model.step(tokens, state)
        logits[:, 2] -= 100.0
        return logits


class Bench:
    """The same documents, translated both ways.

    Args:
        documents: lines of each. clients: how many documents are asked for at once.
    """

    def __init__(self, model: Any, task: Any, documents: list[list[str]], clients: int, batch_size: int, search: Any):
        self.model, self.task, self.clients, self.search = model, task, clients, search
        self.options = GenerationConfig(batch_size=batch_size)
        self.together = ParallelCorpus.from_lines(documents, task.source_tokenizer)
        self.corpora = [ParallelCorpus.from_lines([document], task.source_tokenizer) for document in documents]
        self.steps = 0

    def command(self) -> list[str]:
        """As docnmt-translate does."""
        results = translate_corpus([self.model], self.task, self.together, self.options, self.search)
        return [result.text for result in results]

    @torch.inference_mode()
    def service(self) -> list[str]:
        """As docnmt-serve's worker does."""
        shared = Scheduler(Ensemble([self.model]), self.options, self.search)
        found: list[dict[int, str]] = [{} for _ in self.corpora]
        waiting, self.steps = list(range(len(self.corpora)))[::-1], 0
        while waiting or shared.jobs:
            while waiting and len(shared.jobs) < self.clients:
                number = waiting.pop()
                shared.submit(self._job(self.corpora[number], found[number]))
            shared.step()
            self.steps += 1
        return [document[n] for document in found for n in range(len(document))]

    def _job(self, corpus: ParallelCorpus, found: dict[int, str]) -> Job:
        def deliver(number: int, hypotheses: list[Any]) -> None:
            found[number] = translation(hypotheses[0], self.task.target_tokenizer).text

        return Job([self.model], self.task, corpus, self.options, self.search, given={}, deliver=deliver)


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", required=True, metavar="CKPT")
    parser.add_argument("--text", required=True, type=Path, metavar="FILE", help="documents, an empty line between")
    parser.add_argument("--arch", nargs="*", default=[None], help="untrained models instead")
    parser.add_argument("--clients", nargs="+", type=int, default=[64])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--documents", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(tune())
    models = open_models([options.path], torch.device("cpu"))
    text = re.split(r"\n\n+", options.text.read_text(encoding="utf-8").strip("\n"))
    documents = [document.split("\n") for document in text[: options.documents]]
    sentences = sum(map(len, documents))
    print(f"{sentences} sentences in {len(documents)} documents")
    for arch in options.arch:
        model = models.models[0] if arch is None else Untrained(arch, models.task).eval()
        limits = {} if arch is None else {"max_len_a": 1.0, "max_len_b": 0}
        for clients in options.clients:
            bench = Bench(model, models.task, documents, clients, options.batch_size, BeamSearchConfig(**limits))
            seconds: dict[Any, list[float]] = {bench.command: [], bench.service: []}
            texts = []
            for _ in range(options.repeats):
                for way, taken in seconds.items():
                    begun = time.process_time()
                    texts.append(way())
                    taken.append(time.process_time() - begun)
            command, service = (np.array(each) for each in seconds.values())
            same = sum(a == b for a, b in zip(texts[0], texts[1], strict=True))
            print(f"{arch or options.path}, {clients} clients: command {sentences / command.min():.1f}/s, "
                  f"service {sentences / service.min():.1f}/s in {bench.steps} steps, "
                  f"{100 * command.min() / service.min():.0f} % ({100 * (command / service).min():.0f} to "
                  f"{100 * (command / service).max():.0f}); {same} of {sentences} alike")  # fmt: skip


if __name__ == "__main__":
    main()
