"""What a model's choice of sentences finds: against comparing all sentences, and of what decides the translation.

    python recipes/studies/attention/tree_recall.py runs/tree/checkpoint_best.safetensors \\
        --contrastive corpus/contrastive.tsv
    python recipes/studies/attention/tree_recall.py runs/tree/checkpoint_best.safetensors --text novel.en \\
        --sentences 64 1024

Reads `cond_transformer` and `hier_cond_transformer` models. Documents of N sentences are the questions of a file that
recipes/quickstart/make.py wrote, with neutral sentences before them, or the lines of a source text as they follow each
other.
For each N, layer and head:

    recall     of the t sentences that a word finds most relevant when all are compared, the share that it keeps
    weight     the same, each sentence counting exp(relevance): what it misses among equals counts for nothing
    flat       recall by the relevance of the sentences alone, without the nodes above them
    found      share of the question's words that keep the deciding sentence
    mass       attention of the question's words to the deciding sentence's words

Prints means over heads; `--json` has every head.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2] / "quickstart"))
from lengthen import lengthened
from make import SEPARATOR

from docnmt.apps.commands.translating import LoadedModels, load_models
from docnmt.apps.options import ModelsConfig
from docnmt.core.batch import last_sentence_units
from docnmt.core.scoring.discourse import ForcedExample
from docnmt.core.search.translate import examples_as_documents
from docnmt.core.translation_task import TranslationDataset
from docnmt.functional import conditional as selective
from docnmt.functional.selection import Keys, Queries, Selection, SelectionPolicy, top_sentences
from docnmt.layout import DocumentLayout
from docnmt.modules.document_context import ConditionalAttention
from docnmt.modules.layers import DocumentStore
from docnmt.runtime.system import UserError, write_json

MEASURES = ("recall", "weight", "flat", "found", "mass")
WORDS = 512  # of a document, drawn at random, whose choices are compared
#: A context attention's choice: own keys of the sentences (S, h, d_k), then what was asked and what was chosen.
Seen = tuple[Tensor, Queries, Keys, SelectionPolicy, Selection]
Layers = list[dict[str, list[float]]]  # for each layer: measure → heads


@dataclass
class Choices:
    """What all context attentions of one pass chose."""

    seen: list[Seen] = field(default_factory=list)
    own: Tensor | None = None

    def project(self, attention: ConditionalAttention, store: DocumentStore) -> Keys:
        """In place of `ConditionalAttention.project`: remembers what the sentences alone are compared by."""
        self.own = attention.relevance_key(store.summaries).unflatten(1, (attention.heads, attention.d_head))
        return PROJECT(attention, store)

    def select(self, queries: Queries, keys: Keys, policy: SelectionPolicy) -> Selection:
        """In place of `selective.select`."""
        assert self.own is not None, "keys are projected before queries read them"
        self.seen.append((self.own, queries, keys, policy, chosen := SELECT(queries, keys, policy)))
        return chosen


PROJECT, SELECT = ConditionalAttention.project, selective.select


def kept_share(chosen: Selection, best: Selection) -> Tensor:
    """(h, Tq): how much of `best` is in `chosen`."""
    same = chosen.sentences[..., :, None] == best.sentences[..., None, :]  # (h, Tq, t, t)
    real = (chosen.relevance > -torch.inf)[..., :, None] & (best.relevance > -torch.inf)[..., None, :]
    return (same & real).any(-2).sum(-1) / (best.relevance > -torch.inf).sum(-1).clamp(min=1)


def some(rows: Tensor, queries: Queries, chosen: Selection) -> tuple[Queries, Selection]:
    """Those of some words of one document."""
    layout = DocumentLayout.from_lengths([[len(rows)]])
    asked = Queries(queries.words[rows], queries.sentences[rows], layout)
    return asked, Selection(chosen.sentences[:, rows], chosen.relevance[:, rows])


def measured(seen: Seen, deciding: int | None) -> dict[str, Tensor]:
    """Name → (h,), of one document. Its last sentence is the question, if a deciding sentence is known."""
    own, queries, keys, policy, chosen = seen
    policy = SelectionPolicy(min(policy.top_t, chosen.sentences.shape[-1]))
    paths = replace(keys, relevance=keys.sentences, tree=None, cumulative=None)
    asked, kept = some(torch.randperm(len(queries.words))[:WORDS], queries, chosen)
    best = top_sentences(asked, paths, policy)
    weight = (kept.relevance.logsumexp(-1) - best.relevance.logsumexp(-1)).exp()  # (h, Tq)
    shares = {
        "recall": kept_share(kept, best).mean(1),
        "weight": weight.mean(1),
        "flat": kept_share(kept, top_sentences(asked, replace(paths, relevance=own), policy)).mean(1),
    }
    if deciding is not None:
        asked, kept = some(torch.arange(*queries.layout.sentence_offsets[-2:].tolist()), queries, chosen)
        hit = (kept.sentences == deciding) & (kept.relevance > -torch.inf)  # (h, Tq, t)
        there = (keys.layout.sentence_of_token == deciding).to(keys.values.dtype)
        marked = replace(paths, values=there[:, None, None].expand_as(keys.values))
        mass = selective.attend(asked, marked, kept)[..., 0]  # (Tq, h)
        shares |= {"found": hit.any(-1).float().mean(1), "mass": mass.mean(0)}
    return shares


def open_model(path: str, top_t: int | None = None) -> LoadedModels:
    """One checkpoint; its context attentions keep `top_t` sentences."""
    loaded = load_models(ModelsConfig(path=path))
    if len(loaded.models) > 1:
        raise UserError(f"{path}: expected one checkpoint, got {len(loaded.models)}")
    for module in loaded.models[0].modules():
        if isinstance(module, ConditionalAttention):
            if module.policy.always_own:
                raise UserError(f"{path}: was trained with --always-own-sentence, so not all that it keeps is chosen")
            if top_t is not None:
                module.policy = replace(module.policy, top_t=top_t)
    return loaded


@torch.inference_mode()
def choices(loaded: LoadedModels, example: ForcedExample) -> list[Seen]:
    """What every context attention chose for a document whose last sentence is the example's."""
    model, task = loaded.models[0], loaded.task
    corpus = examples_as_documents([example], task)
    units = last_sentence_units(model.reading, corpus, limit=task.max_doc_tokens, window=None)
    batch = TranslationDataset(corpus, units, model.reading, "recall").batch([0])
    if batch.source.layout.num_sentences < corpus.num_sentences:
        raise UserError(
            f"the model reads at most {task.max_doc_tokens:,} subwords (--max-doc-tokens), which cuts a document of "
            f"{corpus.num_sentences:,} sentences; give smaller --sentences"
        )
    recorder = Choices()
    with (
        mock.patch.object(ConditionalAttention, "project", lambda self, store: recorder.project(self, store)),
        mock.patch.object(selective, "select", recorder.select),
    ):
        model(batch.to(next(model.parameters()).device))
    # attention to earlier translations is another choice, and a document of one sentence has none
    return [seen for seen in recorder.seen if seen[3].visible == "document"]


def questions(path: Path, sentences: int, number: int, seed: int) -> Iterator[tuple[ForcedExample, int]]:
    """Documents of so many sentences, and the number of the one that decides the last one's translation.

    Translations are left out before the last sentence: what a source word reads does not depend on them.
    """
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        if missing := {"group", "correct", "src_context", "src", "tgt", "distance"} - set(reader.fieldnames or []):
            raise UserError(f"{path}, line 1: no column {sorted(missing)[0]!r}; expected make.py's contrastive.tsv")
        rows = [row for row in reader if row["correct"] == "1" and row["src_context"].count(SEPARATOR) + 2 <= sentences]
    if not rows:
        raise UserError(f"{path}: every question has more than {sentences} sentences; give larger --sentences")
    generator = random.Random(seed)
    chosen = generator.sample(rows, min(number, len(rows)))
    for row in lengthened(chosen, sentences, generator):
        context = row["src_context"].split(SEPARATOR)
        yield ForcedExample(tuple(context), row["src"], (), row["tgt"]), len(context) - int(row["distance"])


def pieces(path: Path, sentences: int, number: int, seed: int) -> Iterator[tuple[ForcedExample, None]]:
    """Documents of so many lines of a text, from places all over it."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if len(lines) < sentences:
        raise UserError(f"{path}: has {len(lines):,} sentences; give --sentences of at most as many")
    generator = random.Random(seed)
    for _ in range(number):
        begin = generator.randint(0, len(lines) - sentences)
        *context, last = lines[begin : begin + sentences]
        yield ForcedExample(tuple(context), last, (), last), None


def measure(
    loaded: LoadedModels, documents: Iterator[tuple[ForcedExample, int | None]]
) -> list[dict[str, list[float]]]:
    """For each layer name → heads, means over documents."""
    sums: list[dict[str, list[Tensor]]] = []
    for example, deciding in documents:
        for layer, seen in enumerate(choices(loaded, example)):
            if layer == len(sums):
                sums.append(defaultdict(list))
            for name, heads in measured(seen, deciding).items():
                sums[layer][name].append(heads)
    if not sums:
        raise UserError("no context attention with a choice of sentences: give a cond_ or hier_cond_transformer")
    return [{name: torch.stack(tensors).mean(0).tolist() for name, tensors in layer.items()} for layer in sums]


def print_table(by_size: dict[int, Layers]) -> None:
    """A row for each size and layer, and one for all layers; means over heads and the least head's recall."""
    print("| sentences | layer | recall | least head | weight | flat | found | mass |\n|" + " ---: |" * 8)
    for sentences, layers in by_size.items():
        every = {name: [head for layer in layers for head in layer[name]] for name in layers[0]}
        for number, layer in [*enumerate(layers, 1), ("all", every)]:
            cells = [f"{sum(layer[m]) / len(layer[m]):.3f}" if m in layer else "–" for m in MEASURES]
            cells.insert(1, f"{min(layer['recall']):.3f}")
            print(f"| {sentences:,} | {number} | " + " | ".join(cells) + " |")


def draw(by_size: dict[int, Layers], path: Path) -> None:
    """Recall over sentences, a line for each layer and head."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, plane = pyplot.subplots(figsize=(7, 4.5))
    for layer, first in enumerate(next(iter(by_size.values()))):
        for head in range(len(first["recall"])):
            line = [layers[layer]["recall"][head] for layers in by_size.values()]
            label = f"layer {layer + 1}, head {head + 1}"
            plane.semilogx(list(by_size), line, marker="o", base=2, color=f"C{layer}", label=label)
    plane.set(xlabel="sentences", ylabel="recall against comparing all sentences", ylim=(0, 1.02))
    plane.grid(alpha=0.3)
    plane.legend(fontsize=7, ncols=2)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", metavar="CHECKPOINT")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--contrastive", type=Path, metavar="TSV", help="what recipes/quickstart/make.py wrote")
    source.add_argument("--text", type=Path, metavar="FILE", help="a text in the source language, a sentence a line")
    parser.add_argument("--sentences", type=int, nargs="+", default=[32, 128, 512, 2048], metavar="N")
    parser.add_argument("--documents", type=int, default=20, metavar="N", help="of each size [20]")
    parser.add_argument("--top-t", type=int, metavar="T", help="sentences that a word keeps [as in training]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="numbers of every head")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="recall over sentences, as an image")
    options = parser.parse_args(arguments)
    if min(options.sentences) < 2 or min(options.documents, options.top_t or 1) < 1:
        parser.error("--sentences: at least 2; --documents, --top-t: at least 1")
    torch.manual_seed(options.seed)  # draws the words
    make, source_file = (questions, options.contrastive) if options.contrastive else (pieces, options.text)
    try:
        loaded = open_model(options.path, options.top_t)
        by_size = {n: measure(loaded, make(source_file, n, options.documents, options.seed)) for n in options.sentences}
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except UserError as error:
        parser.error(str(error))
    print_table(by_size)
    if options.json:
        write_json(options.json, {"checkpoint": options.path, "sentences": by_size})
    if options.plot:
        draw(by_size, options.plot)


if __name__ == "__main__":
    main()
