"""Write the English–German discourse corpus: short documents in which later sentences need an earlier one.

    python recipes/quickstart/make.py --out data/discourse

Every answer of every ambiguous sentence is exactly as frequent as the others, so a model that reads sentence by
sentence stays at chance: 1/3 for pronouns and ellipsis, 1/2 for word senses and forms of address. The antecedent shares
a cue with its later sentence but stands 1 to 12 sentences before it, and the document has a rival with another answer.

contrastive.valid.tsv is there to choose settings by, contrastive.tsv and contrastive.foreign.tsv (the same questions in
other contexts) to report. Their combinations of names and ambiguous sentences are disjoint, and not in training.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from documents import DISTANCES, Document, Group, contrastive_groups, text_documents
from lexicon import Pair

HEADER = ("group", "correct", "src_context", "src", "tgt_context", "tgt", "phenomenon", "kind", "distance")
SEPARATOR = "<SEP>"


def write_text(prefix: Path, documents: Sequence[Document]) -> None:
    """`prefix.en` and `prefix.de`: a sentence a line, an empty line between documents."""
    for language in Pair._fields:
        text = "\n".join("".join(f"{getattr(pair, language)}\n" for pair in document) for document in documents)
        prefix.with_name(f"{prefix.name}.{language}").write_text(text, encoding="utf-8", newline="\n")


def write_contrastive(path: Path, groups: Sequence[Group], contexts: Sequence[Document]) -> None:
    """A TSV file with a row for every answer, the right one first."""
    rows = ["\t".join(HEADER)]
    for number, (group, context) in enumerate(zip(groups, contexts, strict=True)):
        sides = [SEPARATOR.join(side) for side in zip(*context, strict=True)]
        right = group.answers[group.correct]
        for answer in sorted(group.answers, key=lambda answer, right=right: answer != right):
            labels = (group.phenomenon, group.kind, str(group.distance))
            rows.append(
                "\t".join((str(number), str(int(answer == right)), sides[0], group.source, sides[1], answer, *labels))
            )
    path.write_text("\n".join(rows) + "\n", encoding="utf-8", newline="\n")


def foreign_contexts(groups: Sequence[Group], rng: random.Random) -> list[Document]:
    """For every group the context of a group with another last sentence: what needs context falls to chance."""
    contexts = []
    for group in groups:
        other = rng.choice(groups)
        while other.source == group.source:
            other = rng.choice(groups)
        contexts.append(other.context)
    return contexts


def check_words(splits: dict[str, list[Document]], groups: Sequence[Group]) -> None:
    """Every word tested was trained.

    Raises:
        ValueError: the training documents are too few for that.
    """
    tested = [*splits["valid"], *splits["test"], *(group.context for group in groups)]
    known, needed = (
        {word for document in documents for pair in document for side in pair for word in side.split()}
        for documents in (splits["train"], tested)
    )
    if unseen := sorted(needed - known):
        raise ValueError(
            f"more training documents are needed: {len(unseen)} words are only tested, {unseen[0]!r} first"
        )


def summary(splits: dict[str, list[Document]], groups: Sequence[Group]) -> str:
    """Counts, and the chance of each phenomenon, as Markdown."""
    lines = ["| split | documents | sentences | words en | words de |", "| --- | --- | --- | --- | --- |"]
    for name, documents in splits.items():
        words = [sum(len(pair[side].split()) for document in documents for pair in document) for side in (0, 1)]
        lines.append(f"| {name} | {len(documents)} | {sum(map(len, documents))} | {words[0]} | {words[1]} |")
    lines += ["", "| phenomenon | chance | groups at each distance | distances |", "| --- | --- | --- | --- |"]
    counts = Counter((group.phenomenon, len(group.answers)) for group in groups)
    for (phenomenon, ways), count in counts.items():
        distances = ", ".join(map(str, DISTANCES))
        lines.append(f"| {phenomenon} | {100 / ways:.1f} % | {count // len(DISTANCES)} | {distances} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write, made if missing")
    parser.add_argument("--train-documents", type=int, default=3000, metavar="N", help="a multiple of 6 [3000]")
    parser.add_argument("--test-documents", type=int, default=120, metavar="N", help="of valid and test each [120]")
    parser.add_argument("--groups", type=int, default=36, metavar="N", help="of each phenomenon and distance [36]")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the same seed writes the same files [1]")
    options = parser.parse_args(arguments)
    sizes = {"train": options.train_documents, "valid": options.test_documents, "test": options.test_documents}
    try:
        splits = {
            split: text_documents(split, n, random.Random(f"{options.seed} {split}")) for split, n in sizes.items()
        }
        groups, choosing = (
            list(contrastive_groups(split, options.groups, random.Random(f"{options.seed} {split} contrastive")))
            for split in ("test", "valid")
        )
        check_words(splits, groups + choosing)
    except ValueError as error:
        parser.error(str(error))
    options.out.mkdir(parents=True, exist_ok=True)
    for split, documents in splits.items():
        write_text(options.out / split, documents)
    write_contrastive(options.out / "contrastive.tsv", groups, [group.context for group in groups])
    write_contrastive(options.out / "contrastive.valid.tsv", choosing, [group.context for group in choosing])
    foreign = foreign_contexts(groups, random.Random(f"{options.seed} foreign"))
    write_contrastive(options.out / "contrastive.foreign.tsv", groups, foreign)
    report = summary(splits, groups)
    title = f"# Discourse corpus, English–German, seed {options.seed}\n\n{__doc__.partition(chr(10))[0]}\n\n"
    (options.out / "README.md").write_text(title + report, encoding="utf-8")
    sys.stdout.write(report)


if __name__ == "__main__":
    main()
