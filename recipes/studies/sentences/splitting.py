"""How well rules and packages find the sentences of running text.

    python recipes/studies/sentences/splitting.py FILE --language de [--role target]

FILE has a sentence a line and empty lines between documents, or is a table, of which --role says the side. Each
document's lines are joined by spaces and split again, by docnmt's rules and by those of sentencex, sentence-splitter
and pysbd that are installed. Printed are precision, recall and F1 of the ends of sentences, without the document's own,
in percent.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

from docnmt.core.scoring.text_files import read_layout
from docnmt.core.split_sentences import splitter

Split = Callable[[str], Sequence[str]]


def splitters(language: str) -> dict[str, Split]:
    """What is installed, by name."""
    installed: dict[str, Split] = {"docnmt": splitter("rules", language)}
    if importlib.util.find_spec("sentencex"):
        import sentencex

        installed["sentencex"] = partial(sentencex.segment, language)
        installed["sentencex, mended"] = splitter("sentencex", language)
    if importlib.util.find_spec("sentence_splitter"):
        from sentence_splitter import split_text_into_sentences

        installed["sentence-splitter"] = partial(split_text_into_sentences, language=language)
    if importlib.util.find_spec("pysbd"):
        import pysbd

        installed["pysbd"] = pysbd.Segmenter(language=language, clean=False).segment
    return installed


def ends(sentences: Sequence[str]) -> set[int]:
    """Where sentences end, by letters without white space, but for the last one."""
    places = list(accumulate(len("".join(sentence.split())) for sentence in sentences))
    return set(places[:-1]) - {0, places[-1]} if places else set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--language", required=True, help="of the text: en, de …")
    parser.add_argument("--role", choices=("source", "target"), default="target", help="of a table: the side")
    options = parser.parse_args()
    layout = read_layout(options.file, role=options.role)
    documents = [layout.sentences[a:b] for a, b in pairwise(layout.document_offsets)]
    print(f"{len(layout.sentences):,} sentences in {len(documents):,} documents")
    for name, split in splitters(options.language).items():
        pairs = [(ends(document), ends(split(" ".join(document)))) for document in documents]
        right, wanted, cut = (sum(map(len, sets)) for sets in zip(*((a & b, a, b) for a, b in pairs), strict=True))
        precision, recall = 100 * right / max(cut, 1), 100 * right / max(wanted, 1)
        f1 = 200 * right / max(cut + wanted, 1)
        print(f"{name:<18} precision {precision:5.1f}  recall {recall:5.1f}  F1 {f1:5.1f}")


if __name__ == "__main__":
    main()
