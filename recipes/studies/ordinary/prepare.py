"""docmix → plain and tagged text for the study of ordinary text: a word before each source line names the domain.

    python prepare.py DOCMIX OUT [--tests FOLDER …]

DOCMIX has train and dev with `docs.tsv`, whose column `corpus` names the domain. Documents of dev of which half or more
of the lines of three words and more stand in training, with their translation, are left out. OUT/plain and OUT/tagged
get train and dev; each FOLDER (one a domain, as `wesnoth_ende`, with test.en, test.de) becomes OUT/plain/FOLDER.test.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

Line = tuple[str, str]


class Document(NamedTuple):
    domain: str
    lines: list[Line]


def read(prefix: Path, domain: str = "") -> list[Document]:
    """Read the documents of PREFIX.en and PREFIX.de, each with its domain."""
    sides = [Path(f"{prefix}.{side}").read_text(encoding="utf-8").strip("\n").split("\n\n") for side in ("en", "de")]
    if domain:
        domains = [domain] * len(sides[0])
    else:
        rows = Path(f"{prefix}.docs.tsv").read_text(encoding="utf-8").splitlines()
        column = rows[0].split("\t").index("corpus")
        domains = [row.split("\t")[column] for row in rows[1:]]
    pairs = zip(domains, *sides, strict=True)
    return [Document(name, list(zip(en.split("\n"), de.split("\n"), strict=True))) for name, en, de in pairs]


def tag(domain: str) -> str:
    return domain.split("_")[0]


def unseen(documents: Sequence[Document], training: Sequence[Document]) -> list[Document]:
    """Leave out documents of which half or more of the lines stand in training."""
    seen = {line for document in training for line in document.lines}
    kept = []
    for document in documents:
        lines = [line for line in document.lines if len(line[0].split()) >= 3]
        if not lines or 2 * sum(line in seen for line in lines) < len(lines):
            kept.append(document)
    return kept


def write(prefix: Path, documents: Sequence[Document], tagged: bool) -> None:
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for side, name in enumerate(("en", "de")):
        texts = []
        for document in documents:
            before = f"{tag(document.domain)}: " if tagged and not side else ""
            texts.append("".join(f"{before}{line[side]}\n" for line in document.lines))
        Path(f"{prefix}.{name}").write_text("\n".join(texts), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Write plain and tagged text, and say how much there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docmix", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tests", type=Path, nargs="*", default=[], help="folders of test sets, one a domain")
    options = parser.parse_args(argv)
    training = read(options.docmix / "train")
    dev = read(options.docmix / "dev")
    splits = {"train": training, "dev": unseen(dev, training)}
    splits |= {f"{folder.name}.test": read(folder / "test", folder.name) for folder in options.tests}
    for name, documents in splits.items():
        for kind in ("plain", "tagged"):
            write(options.out / kind / name, documents, kind == "tagged")
        print(f"{name}: {len(documents):,} documents, {sum(len(one.lines) for one in documents):,} lines")
    print(f"left out of dev, as they stand in training: {len(dev) - len(splits['dev'])} documents")
    return 0


if __name__ == "__main__":
    sys.exit(main())
