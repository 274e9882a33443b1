"""Which columns of a table hold what: as `--columns` says, or by the names that known corpora use."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass

Names = tuple[str, ...]


@dataclass(frozen=True)
class Columns:
    """The columns of each role: names, `a.b` for what is called b inside column a, or numbers from 1 without a header.

    Attributes:
        document: a document begins where one of them changes. section, paragraph: likewise inside a document.
        source: one column. target: one of each reference. hypothesis: one, of a system's translations.
        alignment: of whole documents whose sides have their own sentences, which belong together.
    """

    document: Names = ()
    section: Names = ()
    paragraph: Names = ()
    source: Names = ()
    target: Names = ()
    hypothesis: Names = ()
    alignment: Names = ()

    @property
    def numbered(self) -> bool:
        """Columns are given by their numbers."""
        given = [name for names in dataclasses.astuple(self) for name in names]
        return bool(given) and all(name.isdigit() for name in given)

    def __str__(self) -> str:
        roles = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return " ".join(f"{role}={','.join(names)}" for role, names in roles if names)


ROLES = tuple(field.name for field in dataclasses.fields(Columns))

#: What corpora call them (WMT24++, DocHPLT, ParaCrawl, MaCoCu, Hugging Face and others); {s}, {t} are the languages.
_KNOWN: dict[str, Sequence[Names]] = {
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
    """What `--columns document=NAME source=NAME …` says, and what is wrong with it."""
    roles: dict[str, Names] = {}
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
    """`given`, and where it is silent the known ones of `names`; sections and paragraphs must be given.

    Args:
        languages: of source and target; "" where it is not known.
    """
    found = {}
    for role, every in _KNOWN.items():
        known = [tuple(name.format(s=languages[0] or "?", t=languages[1] or "?") for name in each) for each in every]
        found[role] = getattr(given, role) or next((each for each in known if set(each) <= set(names)), ())
    if found["source"] + found["target"] not in (("src_doc", "tgt_doc"), ("tgt_doc", "src_doc")):
        found["alignment"] = given.alignment  # elsewhere a column of that name holds other things
    return dataclasses.replace(given, **found)


def without_header(width: int) -> Columns | None:
    """What the columns of a file without a header are, if their number tells it: source and target, and before these
    the document (`sacrebleu --echo docid src ref`)."""
    return _BARE.get(width)
