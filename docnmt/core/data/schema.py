"""The schema of `meta.json`, by task."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from msgspec import field as struct_field

from docnmt.runtime.structured import Count, Hex, Name, OpenObject


class FileEntry(OpenObject):
    """A file of the folder; arrays have `dtype` and `length`, structure files their counts."""

    bytes: Count
    sha256: Hex
    xxh3: Hex | None = None
    dtype: Literal["|u1", "u1", "<u2", "<u4", "<i4", "<i8", "<f2", "<f4"] | None = None
    length: Count | None = None
    documents: Count | None = None
    sentences: Count | None = None
    levels: Count | None = None


class Lengths(OpenObject):
    """The lengths of one side of a split, in subwords."""

    tokens: Count
    unknown: Count
    longest_sentence: Count
    longest_document: Count
    sentence_percentiles: tuple[int, int, int]
    document_percentiles: tuple[int, int, int]


class SplitCounts(OpenObject):
    """The counts of a split of a translation folder."""

    documents: Count
    sentences: Count
    levels: Count
    references: Annotated[int, Meta(ge=0, le=1000)]
    lengths: dict[Name, Lengths]
    inputs: dict[str, FileEntry]
    notes: list[str]
    without_partner: Count = 0


class VocabularySizes(OpenObject):
    """The sizes of both sides' vocabularies."""

    source: Count
    target: Count
    joined: bool


class AnyMeta(OpenObject):
    """`meta.json` of any task."""

    format: int
    task: str
    fingerprint: str = ""
    docnmt: str = ""
    files: dict[Name, FileEntry] = struct_field(default_factory=dict)
    options: dict[str, object] = struct_field(default_factory=dict)


class OurMeta(AnyMeta, kw_only=True):
    """`meta.json` of a built-in task."""

    fingerprint: str
    files: dict[Name, FileEntry]
    options: dict[str, object]


class TranslationMeta(OurMeta, kw_only=True):
    """`meta.json` of document_translation."""

    source_lang: Name
    target_lang: Name
    tokenizers: dict[Literal["source", "target"], Name]
    vocabulary: VocabularySizes
    splits: dict[Name, SplitCounts]


class ClassificationMeta(OurMeta, kw_only=True):
    """`meta.json` of text_classification."""

    vocabulary: str
    labels: list[str]


class NliMeta(OurMeta, kw_only=True):
    """`meta.json` of nli."""

    vectors: list[str]
    splits: dict[Name, dict[str, int]]


#: The schema by task; plug-ins' tasks have none.
SCHEMAS: dict[str, type[AnyMeta]] = {
    "document_translation": TranslationMeta,
    "text_classification": ClassificationMeta,
    "nli": NliMeta,
}
