"""The roles of a table's columns, given by `--columns` or found by the names that known corpora use."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass

ColumnNames = tuple[str, ...]


@dataclass(frozen=True)
class Columns:
    """The columns of each role, by names (`a.b` for b inside column a) or by numbers from 1 without a header.

    Attributes:
        document: a document begins when one of them changes. section, paragraph: likewise inside a document.
        source: one column. target: one per reference. hypothesis: one, with a system's translations.
        alignment: one, for rows of whole documents with separate sentences per side: the links between these.
    """

    document: ColumnNames = ()
    section: ColumnNames = ()
    paragraph: ColumnNames = ()
    source: ColumnNames = ()
    target: ColumnNames = ()
    hypothesis: ColumnNames = ()
    alignment: ColumnNames = ()

    @property
    def numbered(self) -> bool:
        """True if columns are given by their numbers."""
        given = [name for names in dataclasses.astuple(self) for name in names]
        return bool(given) and all(name.isdigit() for name in given)

    def __str__(self) -> str:
        roles = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return " ".join(f"{role}={','.join(names)}" for role, names in roles if names)


ROLES = tuple(field.name for field in dataclasses.fields(Columns))

#: The names used by corpora (WMT24++, DocHPLT, ParaCrawl, MaCoCu, Hugging Face and others); {s}, {t} are the languages.
_KNOWN: dict[str, Sequence[ColumnNames]] = {
    "document": (
        ("document",), ("document_id",), ("doc_id",), ("docid",), ("doc",), ("src_doc_id", "tgt_doc_id"),
        ("src_docid", "tgt_docid"), ("file_id", "chapter_id"), ("src_url", "trg_url"),
    ),
    "source": (("source",), ("src",), ("src_text",), ("source_text",), ("src_doc",), ("{s}",), ("translation.{s}",)),
    "target": (
        ("target",), ("tgt",), ("trg",), ("ref",), ("reference",), ("tgt_text",), ("trg_text",), ("target_text",),
        ("tgt_doc",), ("{t}",), ("translation.{t}",),
    ),
    "hypothesis": (("hypothesis",), ("hyp",), ("mt",)),
    "alignment": (("alignment",),),
}  # fmt: skip

#: Layouts without a header, by their number of columns.
_BARE = {2: Columns(source=("1",), target=("2",)), 3: Columns(document=("1",), source=("2",), target=("3",))}


def parse_columns(given: Sequence[str]) -> tuple[Columns, list[str]]:
    """Parse `--columns document=NAME source=NAME …`; return the columns and a list of errors."""
    roles: dict[str, ColumnNames] = {}
    problems = []
    for item in given:
        role, equals, names = item.partition("=")
        if role not in ROLES or not equals or not all(names.split(",")):
            problems.append(f"--columns {item}: expected ROLE=NAME with a role of {', '.join(ROLES)}")
        elif role in roles:
            problems.append(f"--columns: {role} is given twice; several columns are {role}=NAME,NAME")
        roles[role] = tuple(names.split(","))
    columns = Columns() if problems else Columns(**roles)
    for role in ("source", "hypothesis", "alignment"):
        if len(names_of := getattr(columns, role)) > 1:
            problems.append(f"--columns {role}={','.join(names_of)}: expected one column")
    return columns, problems


def complete(given: Columns, names: Collection[str], languages: tuple[str, str]) -> Columns:
    """Return `given`, completed by known names among `names`; sections and paragraphs must be given.

    Args:
        languages: of source and target; "" if unknown.
    """
    found = {}
    for role, every in _KNOWN.items():
        known = [tuple(name.format(s=languages[0] or "?", t=languages[1] or "?") for name in each) for each in every]
        found[role] = getattr(given, role) or next((each for each in known if set(each) <= set(names)), ())
    if found["source"] + found["target"] not in (("src_doc", "tgt_doc"), ("tgt_doc", "src_doc")):
        found["alignment"] = given.alignment  # in other tables a column of that name means something else
    return dataclasses.replace(given, **found)


def without_header(width: int) -> Columns | None:
    """Return the columns of a file without a header, if their number tells: source and target, or document, source and
    target (`sacrebleu --echo docid src ref`); else None."""
    return _BARE.get(width)
