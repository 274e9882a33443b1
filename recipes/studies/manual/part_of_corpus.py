"""Documents of some parts of a corpus, by a column of its table of documents.

    python recipes/studies/manual/part_of_corpus.py ~/corpora/docmix_ende/train --languages en de --column corpus \\
        --values oss_docs_ende --out handbooks/train

The corpus is PREFIX.LANGUAGE (a sentence a line, an empty line between documents) with PREFIX.docs.tsv (first_line,
counted from 1, and n_sentences) and, where there is one, PREFIX.levels.tsv, a row a line. Their lines come out as they
are.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path


def chosen_lines(table: Path, column: str, values: list[str]) -> list[range]:
    """The lines, counted from 0, of each document whose `column` has one of the `values`."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or column not in rows[0]:
        raise SystemExit(f"{table}: no column {column!r}; it has {', '.join(rows[0]) if rows else 'no rows'}")
    absent = set(values) - {row[column] for row in rows}
    if absent:
        there = ", ".join(sorted({row[column] for row in rows}))
        raise SystemExit(f"{table}: column {column!r} has no {', '.join(sorted(absent))}; it has {there}")
    firsts = [(int(row["first_line"]) - 1, int(row["n_sentences"])) for row in rows if row[column] in values]
    return [range(first, first + number) for first, number in firsts]


def copy_lines(source: Path, target: Path, documents: list[range]) -> None:
    """The lines of `documents`, with an empty line between two."""
    lines = source.read_text(encoding="utf-8").split("\n")
    target.write_text("\n\n".join("\n".join(lines[n] for n in span) for span in documents) + "\n", encoding="utf-8")


def main() -> None:
    """Parse and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--languages", nargs="+", required=True)
    parser.add_argument("--column", required=True)
    parser.add_argument("--values", nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True, help="a prefix, too")
    given = parser.parse_args()
    prefix, out = str(given.prefix), str(given.out)
    documents = chosen_lines(Path(f"{prefix}.docs.tsv"), given.column, given.values)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for ending in [*given.languages, *(["levels.tsv"] if Path(f"{prefix}.levels.tsv").exists() else [])]:
        copy_lines(Path(f"{prefix}.{ending}"), Path(f"{out}.{ending}"), documents)
    print(f"{out}: {len(documents):,} documents, {sum(map(len, documents)):,} lines")


if __name__ == "__main__":
    main()
