"""Parts of a corpus, by its table of documents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
DOCUMENTS = [["a", "b"], ["c"], ["d", "", "e"], ["f"]]  # an empty sentence is a line of its document
PARTS = ["x", "y", "x", "z"]


def part(folder: Path, *values: str) -> subprocess.CompletedProcess[str]:
    tool = str(ROOT / "recipes" / "studies" / "manual" / "part_of_corpus.py")
    given = [str(folder / "all"), "--languages", "en", "de", "--column", "part", "--out", str(folder / "out" / "some")]
    return subprocess.run(
        [sys.executable, tool, *given, "--values", *values], capture_output=True, text=True, check=False
    )


def write(folder: Path) -> None:
    lines, rows = [], ["doc_index\tn_sentences\tfirst_line\tpart"]
    for number, (document, name) in enumerate(zip(DOCUMENTS, PARTS, strict=True)):
        lines += [""] if lines else []
        rows.append(f"{number}\t{len(document)}\t{len(lines) + 1}\t{name}")
        lines += document
    (folder / "all.docs.tsv").write_text("\n".join(rows) + "\n")
    for ending, mark in (("en", ""), ("de", "'"), ("levels.tsv", "\t1")):
        (folder / f"all.{ending}").write_text("\n".join(line + mark if line else line for line in lines) + "\n")


def test_documents_come_out_as_they_are(tmp_path: Path) -> None:
    write(tmp_path)
    done = part(tmp_path, "x", "z")
    assert done.stdout == f"{tmp_path}/out/some: 3 documents, 6 lines\n"
    assert (tmp_path / "out" / "some.en").read_text() == "a\nb\n\nd\n\ne\n\nf\n"
    assert (tmp_path / "out" / "some.levels.tsv").read_text() == "a\t1\nb\t1\n\nd\t1\n\ne\t1\n\nf\t1\n"
    assert part(tmp_path, *PARTS).returncode == 0
    assert (tmp_path / "out" / "some.de").read_text() == (tmp_path / "all.de").read_text()


def test_a_part_that_is_not_there_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    done = part(tmp_path, "x", "w")
    assert done.returncode == 1
    assert "column 'part' has no w; it has x, y, z" in done.stderr
