"""A test set whose sentences stand in foreign documents: what does a model lose by reading what does not belong there?

    python recipes/studies/tools/foreign_documents.py corpora/ted/test runs/foreign --languages en de [--within]
    python recipes/studies/tools/foreign_documents.py corpora/ted/test back.txt --languages de \\
        --restore runs/one/foreign/hypotheses.txt

Reads PREFIX.LANGUAGE or PREFIX_LANGUAGE.txt (empty lines or `<d>` between documents), writes OUT.LANGUAGE, documents of
the same lengths and all sentences in another order, the same one in every language; with --within every sentence stays
in its document. The units of PREFIX.levels.tsv stay where they were. --restore puts the lines of a translation of it
back, into the file OUT, for docnmt-score --paired. s-BLEU and chrF do not depend on the order of sentences, so those of
both sets can be compared; a model that reads single sentences has the same of both.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from docnmt.apps.compare import foreign_order, in_documents
from docnmt.core.read_corpus import TextLines, side
from docnmt.core.scoring.text_files import LineLayout, read_layout
from docnmt.runtime.system import UserError, write_text


def order(layout: LineLayout, seed: int, within: bool) -> list[int]:
    """The numbers of all sentences in the order that their number and the seed alone decide."""
    if not within:
        return foreign_order(layout, seed)
    generator = random.Random(seed)
    parts = [list(range(a, b)) for a, b in pairwise(layout.document_offsets)]
    for part in parts:
        generator.shuffle(part)
    return [number for part in parts for number in part]


def foreign(layout: LineLayout, numbers: Sequence[int]) -> str:
    """The text with its sentences in this order."""
    sentences = layout.sentences
    return in_documents([sentences[number] for number in numbers], layout)


def restored(layout: LineLayout, numbers: Sequence[int], path: Path) -> str:
    """The text of `path`, a translation of what `foreign` gives, with its sentences where they are in `layout`."""
    rows = tuple(foreign(layout, numbers).splitlines())
    translated = LineLayout(layout.path, rows, layout.document_offsets, tuple(map(bool, rows))).align(path)
    return in_documents([sentence for _, sentence in sorted(zip(numbers, translated, strict=True))], layout)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", metavar="PREFIX", help="of the text")
    parser.add_argument("out", metavar="OUT", help="prefix of what is written; with --restore the file")
    parser.add_argument("--languages", nargs="+", required=True, metavar="LANGUAGE", help="the files' suffixes")
    parser.add_argument("--seed", type=int, default=1, help="of the order [1]")
    parser.add_argument("--within", action="store_true", help="every sentence stays in its document")
    parser.add_argument("--restore", type=Path, metavar="FILE", help="put these translations back")
    options = parser.parse_args(arguments)
    if options.restore and len(options.languages) != 1:
        parser.error("--restore: expected one of --languages, any whose file has the right order")
    try:
        sides = {language: read_layout(side(options.prefix, language)) for language in options.languages}
        first = next(iter(sides.values()))
        numbers = order(first, options.seed, options.within)
        if options.restore:
            write_text(Path(options.out), restored(first, numbers, options.restore))
            return
        levels = Path(f"{options.prefix}.levels.tsv")
        units = [row for row in TextLines(levels) if row.strip()] if levels.exists() else []
        if units and len(units) != len(numbers):
            raise UserError(f"{levels}: {len(units):,} rows, but {len(numbers):,} sentences in {first.path}")
    except UserError as error:
        parser.error(str(error))
    for layout in sides.values():
        if layout.document_offsets != first.document_offsets:
            parser.error(f"{layout.path}: its documents are not those of {first.path}")
    for language, layout in sides.items():
        write_text(Path(f"{options.out}.{language}"), foreign(layout, numbers))
    if units:
        write_text(Path(f"{options.out}.levels.tsv"), in_documents(units, first))


if __name__ == "__main__":
    main()
