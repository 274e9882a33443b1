"""A text whose sentences begin at the wrong words: how much does a model need their boundaries?

    python recipes/studies/discourse/wrong_boundaries.py corpora/ted/test runs/wrong/test --languages en de \\
        --share 0.3 \
        [--how merge]
    python recipes/studies/discourse/wrong_boundaries.py corpus/contrastive.tsv runs/wrong/contrastive.tsv --share 0.3

Trankova and Rykunov, "Hierarchical Encoding and Conditional Attention in NMT", name this as a limitation: texts whose
structure is not clear. A boundary is what stands between two sentences of a document. Of a share of them, drawn by
--seed alone, `move` has the second sentence begin earlier or later, by the same share of the words in every language
(a sentence of one word keeps it); `merge` makes one sentence of both. What is drawn at a smaller share is also drawn at
a larger one.

Reads PREFIX.LANGUAGE or PREFIX_LANGUAGE.txt (empty lines or `<d>` between documents), writes OUT.LANGUAGE; of merged
sentences PREFIX.levels.tsv keeps the first one's row. Documents have the same words in the same order, so d-BLEU
against OUT.LANGUAGE is d-BLEU against the text itself; s-BLEU is of other sentences. In a contrastive test set (.tsv)
the boundaries inside the contexts are disturbed, and those of the sentence in question stay. Words stand between
spaces.
"""

from __future__ import annotations

import argparse
import csv
import io
import random
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from docnmt.core.read_corpus import TextLines, side
from docnmt.core.scoring.text_files import read_layout
from docnmt.runtime.system import UserError, write_text

SEPARATOR = "<SEP>"
CONTEXTS = ("src_context", "tgt_context")


def draw(boundaries: int, share: float, random_numbers: random.Random) -> list[float]:
    """For each boundary 0, or how far it moves: a share of the words of the sentence that it moves into; negative: of
    the first of both."""
    order = random_numbers.sample(range(boundaries), boundaries)
    moves = [random_numbers.choice((-1, 1)) * random_numbers.uniform(0.2, 0.8) for _ in range(boundaries)]
    chosen = set(order[: round(share * boundaries)])
    return [move if number in chosen else 0.0 for number, move in enumerate(moves)]


def moved(sentences: Sequence[str], moves: Sequence[float]) -> list[str]:
    """Sentences with the boundaries between them moved; each keeps at least one word."""
    words = [sentence.split() for sentence in sentences]
    for number, move in enumerate(moves):
        first, second = words[number], words[number + 1]
        given = first if move < 0 else second
        count = min(len(given) - 1, max(1, round(abs(move) * len(given)))) if move else 0
        if count and move < 0:
            words[number], words[number + 1] = first[:-count], first[-count:] + second
        elif count:
            words[number], words[number + 1] = first + second[:count], second[count:]
    return [" ".join(sentence) for sentence in words]


def merged(sentences: Sequence[str], moves: Sequence[float]) -> list[str]:
    """Sentences with those boundaries removed that would move."""
    kept = list(sentences[:1])
    for sentence, move in zip(sentences[1:], moves, strict=True):
        if move:
            kept[-1] = f"{kept[-1]} {sentence}"
        else:
            kept.append(sentence)
    return kept


def in_documents(documents: Sequence[Sequence[str]]) -> str:
    """A sentence a line, an empty line between documents."""
    return "\n".join("".join(f"{sentence}\n" for sentence in document) for document in documents)


def disturb_text(options: argparse.Namespace, random_numbers: random.Random) -> None:
    """Write every side, and the levels."""
    if not options.languages:
        raise UserError(f"{options.source}: give the suffixes of the sides, --languages en de")
    layouts = [read_layout(side(options.source, language)) for language in options.languages]
    offsets = layouts[0].document_offsets
    levels = Path(f"{options.source}.levels.tsv")
    units = [row for row in TextLines(levels) if row.strip()] if levels.exists() else []
    if units and len(units) != offsets[-1]:
        raise UserError(f"{levels}: {len(units):,} rows, but {offsets[-1]:,} sentences in {layouts[0].path}")
    for layout in layouts:
        if layout.document_offsets != offsets:
            raise UserError(f"{layout.path}: its documents are not those of {layouts[0].path}")
    inner = [end - begin - 1 for begin, end in pairwise(offsets)]
    moves = draw(sum(inner), options.share, random_numbers)
    ends = [0, *accumulate(inner)]
    of_document = [moves[begin:end] for begin, end in pairwise(ends)]
    change = moved if options.how == "move" else merged
    for language, layout in zip(options.languages, layouts, strict=True):
        texts = [layout.sentences[begin:end] for begin, end in pairwise(offsets)]
        changed = [change(text, own) for text, own in zip(texts, of_document, strict=True)]
        write_text(Path(f"{options.out}.{language}"), in_documents(changed))
    if units:
        first = [[row for row, gone in zip(units[a:b], [0.0, *own], strict=True) if not gone or options.how == "move"]
                 for (a, b), own in zip(pairwise(offsets), of_document, strict=True)]  # fmt: skip
        write_text(Path(f"{options.out}.levels.tsv"), in_documents(first))


def disturb_questions(options: argparse.Namespace, random_numbers: random.Random) -> None:
    """Write a contrastive test set: all answers of a group have the same contexts."""
    reader = csv.DictReader(TextLines(Path(options.source)), delimiter="\t", quoting=csv.QUOTE_NONE)
    columns = list(reader.fieldnames or [])
    if missing := [column for column in ("group", *CONTEXTS) if column not in columns]:
        raise UserError(f"{options.source}, line 1: no column {missing[0]!r}; expected a contrastive test set")
    rows = list(reader)
    inner = {row["group"]: row["src_context"].count(SEPARATOR) for row in rows}
    for number, row in enumerate(rows, 2):
        if any(row[column].count(SEPARATOR) != inner[row["group"]] for column in CONTEXTS):
            raise UserError(f"{options.source}, line {number}: its contexts are not of as many sentences as others'")
    moves = draw(sum(inner.values()), options.share, random_numbers)
    ends = [0, *accumulate(inner.values())]
    of_group = {group: moves[begin:end] for group, (begin, end) in zip(inner, pairwise(ends), strict=True)}
    change = moved if options.how == "move" else merged
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n", quotechar=None)
    writer.writeheader()
    for row in rows:
        sides = {column: row[column].split(SEPARATOR) for column in CONTEXTS}
        contexts = {column: SEPARATOR.join(change(texts, of_group[row["group"]])) for column, texts in sides.items()}
        writer.writerow({**row, **contexts})
    write_text(Path(options.out), out.getvalue())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="PREFIX|TSV", help="prefix of a text, or a contrastive test set")
    parser.add_argument("out", metavar="OUT", help="prefix, or file, of what is written")
    parser.add_argument("--languages", nargs="+", metavar="LANGUAGE", help="of a text: the files' suffixes")
    parser.add_argument("--share", type=float, required=True, help="of the boundaries that are wrong, 0 to 1")
    parser.add_argument("--how", choices=["move", "merge"], default="move", help="what happens to these [move]")
    parser.add_argument("--seed", type=int, default=1, help="of the draws [1]")
    options = parser.parse_args(arguments)
    if not 0 <= options.share <= 1:
        parser.error(f"--share: expected 0 to 1, got {options.share}")
    try:
        disturb = disturb_questions if options.source.endswith(".tsv") else disturb_text
        disturb(options, random.Random(options.seed))
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
