"""What `meta.json` may hold, by task."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from docnmt.runtime.structured import Count, Hex, Name, Open


class FileEntry(Open):
    """A file of the folder; arrays have `dtype` and `length`, structure files what they hold."""

    bytes: Count
    sha256: Hex
    xxh3: Hex | None = None
    dtype: Literal["|u1", "u1", "<u2", "<u4", "<i4", "<i8"] | None = None
    length: Count | None = None
    documents: Count | None = None
    sentences: Count | None = None
    levels: Count | None = None


class Lengths(Open):
    """What is counted of one side of a split."""

    tokens: Count
    unknown: Count
    longest_sentence: Count
    longest_document: Count
    sentence_percentiles: tuple[int, int, int]
    document_percentiles: tuple[int, int, int]


class SplitCounts(Open):
    """A split of a translation folder."""

    documents: Count
    sentences: Count
    levels: Count
    references: Annotated[int, Meta(ge=0, le=1000)]
    lengths: dict[Name, Lengths]
    inputs: dict[str, FileEntry]
    notes: list[str]
    without_partner: Count = 0


class Vocabulary(Open):
    """How many entries the vocabularies of both sides have."""

    source: Count
    target: Count
    joined: bool


class AnyMeta(Open):
    """`meta.json` of any task."""

    format: int
    task: str
    fingerprint: str = ""
    docnmt: str = ""
    files: dict[Name, FileEntry] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)


class OurMeta(AnyMeta, kw_only=True):
    """… of the tasks that are built in."""

    fingerprint: str
    files: dict[Name, FileEntry]
    options: dict[str, object]


class TranslationMeta(OurMeta, kw_only=True):
    """… of document_translation."""

    source_lang: Name
    target_lang: Name
    tokenizers: dict[Literal["source", "target"], Name]
    vocabulary: Vocabulary
    splits: dict[Name, SplitCounts]


class ClassificationMeta(OurMeta, kw_only=True):
    """… of text_classification."""

    vocabulary: str
    labels: list[str]


class NliMeta(OurMeta, kw_only=True):
    """… of nli."""

    vectors: list[str]


#: By task; those of plug-ins say what they like.
SCHEMAS: dict[str, type[AnyMeta]] = {
    "document_translation": TranslationMeta, "text_classification": ClassificationMeta, "nli": NliMeta,
}  # fmt: skip
