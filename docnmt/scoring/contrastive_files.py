"""Contrastive test sets in the forms in which they are found.

- TSV with a row for every translation: `group correct src_context src tgt_context tgt` and label columns; also
  `ctx_en src_en ctx_de tgt_de`, any two languages. Contexts are sentences joined by `<SEP>`.
- ContraPro's JSON (Müller et al. 2018), with the OpenSubtitles documents it was made from, or without context.
- DiscEvalMT's JSON (Bawden et al. 2018): anaphora and lexical choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from docnmt.errors import UserError
from docnmt.scoring.contrastive import ContrastiveGroup, ForcedExample

SEPARATOR = "<SEP>"
COLUMNS = ("src_context", "src", "tgt_context", "tgt")


def read_contrastive(path: Path, *, documents: Path | None = None) -> list[ContrastiveGroup]:
    """The groups of a contrastive test set, in the file's order.

    Args:
        documents: for ContraPro's JSON, the folder of OpenSubtitles documents that its `setup_opensubs.sh` makes.

    Raises:
        UserError: not readable or not in one of the forms above; the message names the line or entry.
    """
    text = read_utf8(path)
    groups = _read_json(path, text, documents) if path.suffix == ".json" else _read_tsv(path, text)
    if not groups:
        raise UserError(f"{path}: holds no contrastive group")
    return groups


def read_utf8(path: Path) -> str:
    """The whole text of a file.

    Raises:
        UserError: it cannot be read or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: not valid UTF-8; convert the file") from error


def _read_tsv(path: Path, text: str) -> list[ContrastiveGroup]:
    header, lines = read_rows(path, text)
    columns = column_names(header)
    if not {"group", "correct"} <= set(header) or len(columns) < len(COLUMNS):
        raise UserError(
            f"{path}, line 1: expected the columns group, correct, {', '.join(COLUMNS)} "
            f"(or ctx_en, src_en, ctx_de, tgt_de), got {', '.join(header)[:200]}"
        )
    rows: dict[str, list[dict[str, str]]] = {}
    for row in lines:
        rows.setdefault(row["group"], []).append(row)
    names = [columns[name] for name in COLUMNS]
    labels = [name for name in header if name not in ("group", "correct", *names)]
    return [_group_of_rows(path, name, members, names, labels) for name, members in rows.items()]


def read_rows(path: Path, text: str) -> tuple[list[str], list[dict[str, str]]]:
    """The header of a TSV file, and its rows by column; empty lines are left out.

    Raises:
        UserError: a row has another number of columns, or its `correct` is neither 0 nor 1.
    """
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    header, rows = lines[0].split("\t"), []
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(header):
            raise UserError(f"{path}, line {number}: {len(cells)} columns, but the header has {len(header)}")
        row = dict(zip(header, cells, strict=True))
        if row.get("correct", "1") not in ("0", "1"):
            raise UserError(f"{path}, line {number}: column 'correct' must be 0 or 1, got '{row['correct']}'")
        rows.append(row)
    return header, rows


def column_names(header: Sequence[str]) -> dict[str, str]:
    """Which columns hold the text: of those of `COLUMNS` that are there, the name in this header."""
    found = {name: name for name in COLUMNS if name in header}
    for language in [name[4:] for name in header if name.startswith("ctx_")]:
        for side in ("src", "tgt"):
            if f"{side}_{language}" in header:
                found |= {f"{side}_context": f"ctx_{language}", side: f"{side}_{language}"}
    return found


def _group_of_rows(
    path: Path, name: str, rows: Sequence[dict[str, str]], columns: Sequence[str], labels: Sequence[str]
) -> ContrastiveGroup:
    right = [i for i, row in enumerate(rows) if row["correct"] == "1"]
    if len(right) != 1 or len(rows) < 2:
        raise UserError(
            f"{path}: group {name} has {len(right)} correct of {len(rows)} rows; expected one of two or more"
        )
    source_context, source, target_context, target = columns
    variants = tuple(
        ForcedExample(sentences_of(row[source_context]), row[source], sentences_of(row[target_context]), row[target])
        for row in rows
    )
    if len({(variant.source_context, variant.source) for variant in variants}) != 1:
        raise UserError(f"{path}: the rows of group {name} must be translations of one source sentence in one context")
    return ContrastiveGroup(variants, right[0], {label: rows[right[0]][label] for label in labels})


def sentences_of(context: str) -> tuple[str, ...]:
    """The sentences of a context column."""
    return tuple(sentence.strip() for sentence in context.split(SEPARATOR)) if context.strip() else ()


def _read_json(path: Path, text: str, documents: Path | None) -> list[ContrastiveGroup]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON: {error}") from error
    try:
        if isinstance(content, list):
            return list(_contrapro(content, documents))
        return [group for number, block in content.items() for group in _discevalmt(number, block)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: neither ContraPro's nor DiscEvalMT's JSON form: {error!r}") from error


def _contrapro(entries: Sequence[dict[str, Any]], documents: Path | None) -> Iterator[ContrastiveGroup]:
    for entry in entries:
        source_context, target_context = _subtitles(entry, documents) if documents else ((), ())
        targets = [entry["ref segment"], *(error["contrastive"] for error in entry["errors"])]
        distance = entry["ante distance"]
        labels = {
            "pronoun": f"{entry['src pronoun']}:{entry['ref pronoun']}".lower(),
            "distance": ">3" if distance > 3 else str(distance),  # as in ContraPro's own report
        }
        variants = (ForcedExample(source_context, entry["src segment"], target_context, target) for target in targets)
        yield ContrastiveGroup(tuple(variants), 0, labels)


def _subtitles(entry: dict[str, Any], documents: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """All sentences before this entry's in its document: `FOLDER/NAME.de` and `.en`; entries count lines from 1."""
    found = next(documents.glob(f"*/{entry['document id']}"), None)
    if found is None:
        raise UserError(f"{documents}: no document '{entry['document id']}' in any of its folders")
    sides = (found.with_suffix(suffix).read_text(encoding="utf-8").split("\n") for suffix in (".en", ".de"))
    source, target = (tuple(lines[: int(entry["segment id"]) - 1]) for lines in sides)
    return source, target


def _discevalmt(number: str, block: dict[str, Any]) -> Iterator[ContrastiveGroup]:
    """Anaphora: a block has one source and several contexts of translation; lexical choice: examples with their own."""
    if "examples" in block:
        for example in block["examples"]:
            yield _discevalmt_pair(example["src"], example["trg"], "correct", {"type": block["type"]})
        return
    for target in block["trg"]:
        right = "correct" if "correct" in target else "semi-correct"
        yield _discevalmt_pair(block["src"], target, right, {"type": target["type"], "antecedent": right})


def _discevalmt_pair(
    source: Sequence[str], target: dict[str, Any], right: str, labels: dict[str, str]
) -> ContrastiveGroup:
    """The target context is the right side's; the wrong side's last sentence is read after the same words."""
    context, variants = tuple(target[right][:-1]), (target[right][-1], target["incorrect"][-1])
    examples = (ForcedExample(tuple(source[:-1]), source[-1], context, variant) for variant in variants)
    return ContrastiveGroup(tuple(examples), 0, labels)
