"""Choose among n-best translations by a language model of target documents.

    docnmt-generate DATA --path MT --gen-subset valid --beam 10 --nbest 10 > dev.nbest
    python rerank.py score dev.nbest dev.de LM dev.jsonl
    python rerank.py choose dev.jsonl dev.de test.jsonl test.de OUT

A language model is a model whose source is `.` for every sentence (`rerank.py text FILE.de OUT` writes such text). It
scores each candidate after the best translations of the sentences before it, at most --window; after those of the next
document in their place (*foreign*); and alone (*none*). `choose` takes the highest mean log p a subword of the
translation model + λ · that of the language model, with the λ from 0 to 1 of the highest BLEU on dev. It writes
OUT/none, OUT/true and OUT/foreign with the document structure of test.de, and OUT/best without a language model;
foreign uses the λ of true.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU

import docnmt
from docnmt.core.scoring.discourse import ForcedExample
from docnmt.core.search.translate import forced_scores
from docnmt.runtime.progress import Progress

WEIGHTS = [step / 20 for step in range(21)]  # λ
CONTEXTS = ("none", "true", "foreign")
Row = Mapping[str, Any]


def documents(path: Path) -> list[list[str]]:
    """The documents of a text, an empty line between two."""
    return [part.split("\n") for part in path.read_text(encoding="utf-8").strip("\n").split("\n\n")]


def candidates(lines: Iterable[str]) -> list[list[tuple[float, str]]]:
    """Score and text of each sentence's candidates, best first, of the output of docnmt-generate."""
    sentences: dict[int, list[tuple[float, str]]] = {}
    for line in lines:
        if line.startswith("D-"):
            name, score, text = line.rstrip("\n").split("\t", 2)
            sentences.setdefault(int(name[2:]), []).append((float(score), text))
    return [sentences[number] for number in range(len(sentences))]


def contexts(best: Sequence[Sequence[str]], window: int) -> Iterator[dict[str, list[str]]]:
    """For each sentence, the translations before it by kind of context, of documents of best translations."""
    for number, document in enumerate(best):
        other = best[(number + 1) % len(best)]
        for position in range(len(document)):
            first = max(0, position - window)
            end = min(position, len(other))
            yield {
                "none": [],
                "true": [*document[first:position]],
                "foreign": [*other[max(0, end - (position - first)) : end]],
            }


def score(nbest: Path, reference: Path, path: str, out: Path, window: int, kinds: Sequence[str]) -> None:
    """Write a line of JSON a sentence: texts, and log p a subword of both models."""
    loaded = docnmt.load(path).models
    lists = candidates(nbest.read_text(encoding="utf-8").split("\n"))
    lengths = [len(document) for document in documents(reference)]
    assert sum(lengths) == len(lists), f"{nbest}: {len(lists)} sentences, {reference}: {sum(lengths)}"
    words = iter([entries[0][1] for entries in lists])
    best = [[next(words) for _ in range(length)] for length in lengths]
    rows: list[dict[str, Any]] = []
    examples = []
    for entries, context in zip(lists, contexts(best, window), strict=True):
        rows.append({"text": [text for _, text in entries], "mt": [value for value, _ in entries]})
        for kind in kinds:
            before = tuple(context[kind])
            examples += [ForcedExample((".",) * len(before), ".", before, text) for _, text in entries]
    with Progress(len(examples), "scoring", unit="candidates") as bar:
        scores = iter(
            forced_scores(loaded.models, loaded.task, examples, max_tokens=4000, lenpen=1.0, progress=bar.update)
        )
    for row in rows:
        row.update({kind: [next(scores) for _ in row["mt"]] for kind in kinds})
    out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def chosen(rows: Sequence[Row], kind: str, weight: float) -> list[str]:
    """Each sentence's text with the highest sum; of equal ones the first."""
    best = []
    for row in rows:
        sums = [mt + weight * lm for mt, lm in zip(row["mt"], row[kind], strict=True)]
        best.append(row["text"][sums.index(max(sums))])
    return best


def choose(dev: Path, reference: Path, test: Path, structure: Path, out: Path) -> None:
    """Choose the weights on dev, and write the translations of the test text."""
    tuning, rows = ([json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]] for path in (dev, test))
    right = [line for document in documents(reference) for line in document]
    lengths = [len(document) for document in documents(structure)]
    out.mkdir(parents=True, exist_ok=True)
    weights = {"best": 0.0}
    for kind in ("best", *(kind for kind in CONTEXTS if kind in rows[0])):
        if kind == "foreign":
            weights[kind] = weights["true"]
        elif kind != "best":
            bleu = {w: BLEU().corpus_score(chosen(tuning, kind, w), [right]).score for w in WEIGHTS}
            weights[kind] = max(bleu, key=lambda w: (bleu[w], -w))
            print(f"{kind}: λ {weights[kind]:.2f}, dev BLEU {bleu[weights[kind]]:.2f}, without {bleu[0.0]:.2f}")
        texts = chosen(rows, kind if kind != "best" else "mt", weights[kind])
        if kind != "best":
            changed = sum(text != row["text"][0] for text, row in zip(texts, rows, strict=True))
            print(f"{kind}: {changed:,} of {len(rows):,} sentences of the test changed")
        lines = iter(texts)
        text = "\n".join("".join(f"{next(lines)}\n" for _ in range(length)) for length in lengths)
        (out / kind).write_text(text, encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("text", help="text to train a language model on: OUT.en, a dot a line, and OUT.TARGET")
    one.add_argument("file", type=Path)
    one.add_argument("out", type=Path)
    one = commands.add_parser("score", help="score candidates")
    for name in ("nbest", "reference"):
        one.add_argument(name, type=Path)
    one.add_argument("model")
    one.add_argument("out", type=Path)
    one.add_argument("--window", type=int, default=5, help="sentences of context [5]")
    one.add_argument("--contexts", nargs="+", choices=CONTEXTS, default=CONTEXTS, help="[all]")
    one = commands.add_parser("choose", help="choose among candidates")
    for name in ("dev", "reference", "test", "structure", "out"):
        one.add_argument(name, type=Path)
    options = parser.parse_args(argv)
    if options.command == "text":
        lines = options.file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        Path(f"{options.out}.en").write_text("".join(".\n" if line else "\n" for line in lines), encoding="utf-8")
        Path(f"{options.out}{options.file.suffix}").write_bytes(options.file.read_bytes())
    elif options.command == "score":
        score(options.nbest, options.reference, options.model, options.out, options.window, options.contexts)
    else:
        choose(options.dev, options.reference, options.test, options.structure, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
