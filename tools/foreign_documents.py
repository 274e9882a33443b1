"""A test set whose sentences stand in foreign documents: what does a model lose by reading what does not belong there?

    python tools/foreign_documents.py corpora/ted/test runs/foreign --languages en de

Reads PREFIX.LANGUAGE or PREFIX_LANGUAGE.txt (empty lines or `<d>` between documents), writes OUT.LANGUAGE, documents of
the same lengths and all sentences in another order, the same one in every language. s-BLEU and chrF do not depend on
the order of sentences, so those of both sets can be compared; a model that reads single sentences has the same of both.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from docnmt.data.forms import side
from docnmt.errors import UserError
from docnmt.files import write_text
from docnmt.scoring.aligned import Layout, read_layout


def foreign(layout: Layout, seed: int) -> str:
    """The text with all sentences in another order, which their number and the seed alone decide."""
    sentences = layout.sentences
    random.Random(seed).shuffle(sentences)
    documents = (sentences[a:b] for a, b in pairwise(layout.document_offsets))
    return "\n".join("".join(f"{sentence}\n" for sentence in document) for document in documents)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", metavar="PREFIX", help="of the text")
    parser.add_argument("out", metavar="OUT", help="prefix of what is written")
    parser.add_argument("--languages", nargs="+", required=True, metavar="LANGUAGE", help="the files' suffixes")
    parser.add_argument("--seed", type=int, default=1, help="of the order [1]")
    options = parser.parse_args(arguments)
    try:
        sides = {language: read_layout(side(options.prefix, language)) for language in options.languages}
    except UserError as error:
        parser.error(str(error))
    first = next(iter(sides.values()))
    for layout in sides.values():
        if layout.document_offsets != first.document_offsets:
            parser.error(f"{layout.path}: its documents are not those of {first.path}")
    for language, layout in sides.items():
        write_text(Path(f"{options.out}.{language}"), foreign(layout, options.seed))


if __name__ == "__main__":
    main()
