"""Reading of contrastive test sets in their known formats.

- TSV with a row for every translation: `group correct src_context src tgt_context tgt` and label columns; also
  `ctx_en src_en ctx_de tgt_de`, any two languages. Contexts are sentences joined by `<SEP>`.
- ContraPro's JSON (Müller et al. 2018), with the OpenSubtitles documents it was made from, or without context.
- DiscEvalMT's JSON (Bawden et al. 2018): anaphora and lexical choice.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

from msgspec import Meta, field

from docnmt.core.formats.table_rows import open_table, text_rows
from docnmt.core.lines import TextLines
from docnmt.core.scoring.contrastive import ContrastiveGroup, ForcedExample
from docnmt.runtime.errors import UserError
from docnmt.runtime.structured import Count, Name, OpenObject, checked, parse_json

SEPARATOR = "<SEP>"
#: The sentences of a text, one or more.
Texts = Annotated[list[str], Meta(min_length=1)]
COLUMNS = ("src_context", "src", "tgt_context", "tgt")
#: The keys that `--json` writes for a question besides its labels, which cannot have these names.
RESULTS = ("solved", "answered")


def read_contrastive(path: Path, *, documents: Path | None = None) -> list[ContrastiveGroup]:
    """Read the groups of a contrastive test set, in the file's order.

    Args:
        documents: for ContraPro's JSON, the folder of OpenSubtitles documents that its `setup_opensubs.sh` makes.

    Raises:
        UserError: the file is unreadable or in none of the formats above; the message names the line or entry.
    """
    groups = _read_contrastive_json(path, documents) if path.suffix == ".json" else _read_contrastive_tsv(path)
    if not groups:
        raise UserError(f"{path}: holds no contrastive group")
    return groups


def read_json(path: Path) -> object:
    """Read the content of a JSON file.

    Raises:
        UserError: the file cannot be read, is not JSON in UTF-8, or is nested too deeply.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid JSON, which is UTF-8: {error}") from error
    return parse_json(text, str(path))


def _read_contrastive_tsv(path: Path) -> list[ContrastiveGroup]:
    header, table_rows = read_rows(path)
    columns = column_names(header)
    if not {"group", "correct"} <= set(header) or len(columns) < len(COLUMNS):
        raise UserError(
            f"{path}:1: expected the columns group, correct, {', '.join(COLUMNS)} "
            f"(or ctx_en, src_en, ctx_de, tgt_de), got {', '.join(header)[:200]}"
        )
    rows: dict[str, list[dict[str, str]]] = {}
    for _, row in table_rows:
        rows.setdefault(row["group"], []).append(row)
    names = [columns[name] for name in COLUMNS]
    labels = [name for name in header if name not in ("group", "correct", *names)]
    return [_group_of_rows(path, name, members, names, labels) for name, members in rows.items()]


def read_rows(path: Path) -> tuple[list[str], list[tuple[str, dict[str, str]]]]:
    """Read the columns of a table, and the place and texts of each row; empty lines are left out.

    Raises:
        UserError: invalid UTF-8 text, two columns of one name, a row with another number of columns, or a value of
            `correct` other than 0 and 1.
    """
    table = open_table(path)
    if taken := [name for name in RESULTS if name in table.names]:
        raise UserError(f"{path}:1: rename the column '{taken[0]}', which is the name of what is found")
    rows = [(place, row) for place, row in text_rows(table, table.names) if any(map(str.strip, row.values()))]
    for place, row in rows:
        if row.get("correct", "1") not in ("0", "1"):
            raise UserError(f"{place}: column 'correct' must be 0 or 1, got '{row['correct']}'")
    return table.names, rows


def column_names(header: Sequence[str]) -> dict[str, str]:
    """Map the present columns of `COLUMNS` to their names in this header."""
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
    if not variants[0].source.strip():
        raise UserError(f"{path}: group {name} has no source sentence; expected text in the column {source}")
    return ContrastiveGroup(variants, right[0], {label: rows[right[0]][label] for label in labels})


def sentences_of(context: str) -> tuple[str, ...]:
    """Return the sentences of a context column."""
    return tuple(sentence.strip() for sentence in context.split(SEPARATOR)) if context.strip() else ()


def _read_contrastive_json(path: Path, documents: Path | None) -> list[ContrastiveGroup]:
    content = read_json(path)
    if isinstance(content, list):
        entries = checked(content, list[ContraProEntry], f"{path}: not ContraPro's JSON form")
        return [_contrapro(entry, documents) for entry in entries]
    blocks = checked(content, dict[str, _Block], f"{path}: neither ContraPro's nor DiscEvalMT's JSON form")
    return [group for number, block in blocks.items() for group in _discevalmt(f"{path}: '{number}'", block)]


class _Wrong(OpenObject):
    contrastive: str


class ContraProEntry(OpenObject):
    """A question of ContraPro's `contrapro.json`."""

    src_segment: str = field(name="src segment")
    ref_segment: str = field(name="ref segment")
    src_pronoun: str = field(name="src pronoun")
    ref_pronoun: str = field(name="ref pronoun")
    ante_distance: int = field(name="ante distance")
    errors: list[_Wrong]
    document_id: Name | None = field(name="document id", default=None)
    segment_id: Count | None = field(name="segment id", default=None)


def _contrapro(entry: ContraProEntry, documents: Path | None) -> ContrastiveGroup:
    source_context, target_context = _subtitles(entry, documents) if documents else ((), ())
    targets = [entry.ref_segment, *(error.contrastive for error in entry.errors)]
    labels = {
        "pronoun": f"{entry.src_pronoun}:{entry.ref_pronoun}".lower(),
        "distance": ">3" if entry.ante_distance > 3 else str(entry.ante_distance),  # as in ContraPro's own report
    }
    variants = (ForcedExample(source_context, entry.src_segment, target_context, target) for target in targets)
    return ContrastiveGroup(tuple(variants), 0, labels)


def _subtitles(entry: ContraProEntry, documents: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sentences before this entry's in its document, `FOLDER/NAME.de` and `.en`; entries count from 1."""
    if entry.document_id is None or not entry.segment_id:
        raise UserError(f"{documents}: an entry has no 'document id' and 'segment id', so its context is unknown")
    found = next(documents.glob(f"*/{glob.escape(entry.document_id)}"), None)
    if found is None:
        raise UserError(f"{documents}: no document '{entry.document_id}' in any of its folders")
    before = entry.segment_id - 1
    source, target = (tuple(islice(TextLines(found.with_suffix(side)), before)) for side in (".en", ".de"))
    return source, target


class _Target(OpenObject):
    """A right translation (`correct` or `semi-correct`) and a wrong one, each with its context."""

    incorrect: Texts
    correct: Texts | None = None
    semi_correct: Texts | None = field(name="semi-correct", default=None)
    type: str = ""


class _Example(OpenObject):
    src: Texts
    trg: _Target


class _Block(OpenObject):
    """A block of DiscEvalMT: lexical choice has examples with own sources, anaphora one source with several targets."""

    examples: list[_Example] | None = None
    src: Texts | None = None
    trg: list[_Target] | None = None
    type: str = ""


def _discevalmt(where: str, block: _Block) -> Iterator[ContrastiveGroup]:
    if block.examples is None and (block.src is None or block.trg is None):
        raise UserError(
            f"{where}: neither ContraPro's nor DiscEvalMT's JSON form: no 'examples', and no 'src' and 'trg'"
        )
    for example in block.examples or ():
        yield _discevalmt_pair(where, example.src, example.trg, {"type": block.type})
    for target in block.trg or () if block.examples is None else ():
        right = "semi-correct" if target.correct is None else "correct"
        yield _discevalmt_pair(where, block.src or [], target, {"type": target.type, "antecedent": right})


def _discevalmt_pair(where: str, source: Sequence[str], target: _Target, labels: dict[str, str]) -> ContrastiveGroup:
    """Build a group whose target context is the right side's; the wrong side's last sentence gets the same context."""
    right = target.semi_correct if target.correct is None else target.correct
    if right is None:
        raise UserError(f"{where}: expected 'correct' or 'semi-correct' beside 'incorrect'")
    context, variants = tuple(right[:-1]), (right[-1], target.incorrect[-1])
    examples = (ForcedExample(tuple(source[:-1]), source[-1], context, variant) for variant in variants)
    return ContrastiveGroup(tuple(examples), 0, labels)
