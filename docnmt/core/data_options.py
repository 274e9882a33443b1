"""Options of preprocessing and of the translation task, and what a model reads. No torch, no NumPy."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from docnmt.options import Needs, Open, flag, option, settings

#: Where position indices begin. unit: at the beginning of the unit around them. document: at the document's. mixed:
#: words at the document's, others as unit. sequence: as unit, but words of joined sentences at the
#: beginning of the whole sequence.
PositionCount = Literal["unit", "document", "mixed", "sequence"]

# The roles of a table's columns, given by `--columns` or found by the names that known corpora use.


_ColumnNames = tuple[str, ...]


@dataclass(frozen=True)
class Columns:
    """The columns of each role, by names (`a.b` for b inside column a) or by numbers from 1 without a header."""

    document: _ColumnNames = ()  # a document begins when one of them changes
    section: _ColumnNames = ()  # likewise inside a document
    paragraph: _ColumnNames = ()
    source: _ColumnNames = ()  # one
    target: _ColumnNames = ()  # one per reference
    hypothesis: _ColumnNames = ()  # one, with a system's translations
    alignment: _ColumnNames = ()  # one, of rows of whole documents: the links between the sentences of its sides

    @property
    def numbered(self) -> bool:
        """True if columns are given by their numbers."""
        given = [name for names in dataclasses.astuple(self) for name in names]
        return bool(given) and all(name.isdigit() for name in given)

    def __str__(self) -> str:
        roles = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return " ".join(f"{role}={','.join(names)}" for role, names in roles if names)


_ROLES = tuple(field.name for field in dataclasses.fields(Columns))

#: The names used by corpora (WMT24++, DocHPLT, ParaCrawl, MaCoCu, Hugging Face and others); {s}, {t} are the languages.
_KNOWN: dict[str, Sequence[_ColumnNames]] = {
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

#: Layouts without a header, by their number of columns (of three: `sacrebleu --echo docid src ref`).
BARE = {2: Columns(source=("1",), target=("2",)), 3: Columns(document=("1",), source=("2",), target=("3",))}


def parse_columns(given: Sequence[str]) -> tuple[Columns, list[str]]:
    """Parse `--columns document=NAME source=NAME …`; return the columns and a list of errors."""
    roles: dict[str, _ColumnNames] = {}
    problems = []
    for item in given:
        role, equals, names = item.partition("=")
        if role not in _ROLES or not equals or not all(names.split(",")):
            problems.append(f"--columns {item}: expected ROLE=NAME with a role of {', '.join(_ROLES)}")
        elif role in roles:
            problems.append(f"--columns: {role} is given twice; several columns are {role}=NAME,NAME")
        roles[role] = tuple(names.split(","))
    columns = Columns() if problems else Columns(**roles)
    for role in ("source", "hypothesis", "alignment"):
        if len(names_of := getattr(columns, role)) > 1:
            problems.append(f"--columns {role}={','.join(names_of)}: expected one column")
    return columns, problems


def complete(given: Columns, names: Collection[str], languages: tuple[str, str]) -> Columns:
    """Return `given`, completed by known names among `names`; sections and paragraphs must be given. `languages` are
    those of source and target, "" if unknown."""
    roles: dict[str, _ColumnNames] = {}
    for role, layouts in _KNOWN.items():
        known = (tuple(n.format(s=languages[0] or "?", t=languages[1] or "?") for n in layout) for layout in layouts)
        roles[role] = getattr(given, role) or next((layout for layout in known if set(layout) <= set(names)), ())
    if roles["source"] + roles["target"] not in (("src_doc", "tgt_doc"), ("tgt_doc", "src_doc")):
        roles["alignment"] = given.alignment  # in other tables a column of that name means something else
    return dataclasses.replace(given, **roles)


# Options of `docnmt-preprocess` for translation. Imports neither NumPy nor SentencePiece.


#: The default of `--vocab-size`.
DEFAULT_VOCAB_SIZE = 8000
#: Options that have an effect only if a vocabulary is trained.
_VOCABULARY_OPTIONS = (
    "vocab_size", "subword_model", "character_coverage", "byte_fallback", "normalization", "normalize_punctuation",
    "subword_sample",
)  # fmt: skip


@dataclass(frozen=True)
class TranslationPreprocessConfig:
    """Parallel documents: PREFIX.SRC and PREFIX.TGT, a sentence a line, an empty line between documents."""

    source_lang: str = option(
        dataclasses.MISSING, "source language: the ending of its files", metavar="SRC", aliases=("-s",)
    )
    target_lang: str = option(
        dataclasses.MISSING, "target language: the ending of its files", metavar="TGT", aliases=("-t",)
    )
    destdir: str = option(dataclasses.MISSING, "folder to write", metavar="DIR", basic=True)
    trainpref: tuple[str, ...] = option(
        (),
        "training files without their ending, or a table: .tsv, .jsonl or .parquet, also .gz or .zst; several stand "
        "one after the other in the training split; needed unless --srcdict is given",
        metavar="PREFIX",
        basic=True,
    )
    validpref: tuple[str, ...] = option((), "validation files: split valid, valid1, ...", metavar="PREFIX", basic=True)
    testpref: tuple[str, ...] = option(
        (), "test files: split test, test1, ...; may have no target side", metavar="PREFIX", basic=True
    )
    columns: tuple[str, ...] = option(
        (),
        "what the columns of tables are called: source=NAME target=NAME document=NAME, also paragraph and section; "
        "NAME,NAME: several of them; 1, 2, …: by number, where there is no header [the names that known corpora use]",
        metavar="ROLE=NAME",
        basic=True,
    )
    one_sided: Literal["error", "read", "skip"] | None = option(
        None,
        "what happens to source sentences without a translation. read: they stay as context, and are neither "
        "trained on nor scored; skip: they are left out. Translations without a source are left out in both cases "
        "[error; in tables read]",
    )
    detokenize: Literal["none", "moses"] = option(
        "none",
        "moses: the text was cut into words by Moses' tokenizer, and is put together again as it is read "
        "(sacremoses); its parts, as 's and &quot;, become ordinary text",
    )
    drop_duplicates: bool = option(
        False,
        "leave out training documents that repeat an earlier one on both sides; dropped.tsv lists what is left out",
        needs="trainpref",
    )
    drop_overlap: bool = option(
        False,
        "leave out training documents of which at least half stands in the validation or test data",
        needs=[Needs("trainpref"), Needs(("validpref", "testpref"))],
    )
    overwrite: bool = option(False, "replace the folder if docnmt-preprocess wrote it", basic=True)
    workers: int | None = option(
        None,
        "processes that cut text into subwords; the result does not depend on it [as many as there are "
        "processors that this one may use, fewer for little text]",
        basic=True,
        between=(1, None),
    )

    vocab_size: int | None = option(
        None,
        "entries of the vocabulary, the five special ones included "
        f"[{DEFAULT_VOCAB_SIZE}, or as many as the text supports]",
        metavar="N",
        basic=True,
        between=(1, 1 << 24),
    )
    joined_dictionary: bool = option(True, "one vocabulary for both languages", basic=True)
    srcdict: str | None = option(
        None,
        "take the vocabulary of both languages from a data folder, a checkpoint (or --save-dir) or a .model "
        "file; with --no-joined-dictionary the source's",
        metavar="PATH",
        basic=True,
    )
    tgtdict: str | None = option(
        None, "the target's likewise", metavar="PATH", needs=Needs("joined_dictionary", (False,))
    )
    subword_model: Literal["unigram", "bpe"] = option("unigram", "kind of SentencePiece model")
    character_coverage: float = option(
        1.0, "share of the training text's characters to have in the vocabulary", between=(Open(0), 1)
    )
    byte_fallback: bool = option(False, "spell characters that are not in the vocabulary in UTF-8 bytes")
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = option(
        "nmt_nfkc",
        "SentencePiece's normalisation of the text before it is cut; raw text and references stay as they are",
    )
    normalize_punctuation: bool = option(
        False,
        "before text is cut, make its punctuation uniform by Moses' rules (sacremoses): straight quotation "
        "marks, no space before a colon; stored with the vocabulary, so that translating and scoring do it, too",
    )
    user_defined_symbols: tuple[str, ...] = option(
        (),
        "entries of the vocabulary that are never cut, such as language tags (<2de>), wherever the text has them",
        metavar="SYMBOL",
        needs=Needs("trains_vocabulary", says="a vocabulary that is trained here"),
    )
    subword_sample: int = option(
        500_000,
        "train the vocabulary on at most N lines of a side, spread evenly over the training text; "
        "SentencePiece takes about 25 bytes of memory for each byte of them",
        metavar="N",
        between=(1, None),
    )

    long_policy: Literal["error", "split", "truncate", "skip"] = option(
        "error",
        "what happens to sentences and documents above the limits below. split: sentences at spaces, on both "
        "sides into equally many pieces; documents at sentence ends. truncate: the rest is cut off. skip: left out on "
        "both sides. Test sets are never changed: too long is an error under 'error' and else kept with a warning",
    )
    max_sentence_tokens: int = option(
        1024, "longest sentence, in subwords of its longer side", metavar="N", basic=True, between=(1, None)
    )
    max_document_tokens: int | None = option(
        None,
        "longest document, likewise; by default any, as docnmt-train --max-doc-tokens cuts at sentence ends",
        metavar="N",
        between=(1, None),
    )

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        problems = parse_columns(self.columns)[1]
        if not self.trainpref and self.srcdict is None:
            problems.append("--trainpref is required (or --srcdict, to preprocess with a vocabulary that exists)")
        elif not (self.trainpref or self.joined_dictionary or self.tgtdict is not None):
            problems.append("--no-joined-dictionary without --trainpref needs --tgtdict as well as --srcdict")
        elif not (self.trainpref or self.validpref or self.testpref):
            problems.append("nothing to do: give --trainpref, --validpref or --testpref")
        if self.source_lang == self.target_lang:
            problems.append(
                f"--source-lang and --target-lang are both '{self.source_lang}', so their files are the same"
            )
        if self.table_columns().hypothesis:
            problems.append("--columns hypothesis=…: has no effect here; it belongs to docnmt-score")
        symbols = self.user_defined_symbols
        for symbol in symbols:
            if symbol.replace("▁", " ").split() != [symbol] or symbols.count(symbol) > 1:
                problems.append(f"--user-defined-symbols {symbol!r}: expected each once, without white space and ▁")
        return problems

    def useless(self) -> list[str]:
        """Return the given options that need a vocabulary to be trained, if none is."""
        usual = {setting.name: setting.default for setting in settings(type(self))}
        names = [] if self.trains_vocabulary else _VOCABULARY_OPTIONS
        return [flag(name) for name in names if getattr(self, name) != usual[name]]

    @property
    def trains_vocabulary(self) -> bool:
        """True if a vocabulary is trained, for one side at least."""
        return self.srcdict is None or not (self.joined_dictionary or self.tgtdict is not None)

    def table_columns(self) -> Columns:
        """Return the value of `--columns`, parsed."""
        return parse_columns(self.columns)[0]

    def filters(self) -> list[str]:
        """Return the given options that filter training documents."""
        names = ("drop_duplicates", "drop_overlap")
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name)]

    def prefixes(self) -> dict[str, tuple[str, ...]]:
        """Return the prefixes of each split; as in fairseq, commas also separate different splits."""
        splits = {"train": self.trainpref} if self.trainpref else {}
        for name, given in (("valid", self.validpref), ("test", self.testpref)):
            prefixes = [prefix for item in given for prefix in item.split(",")]
            splits |= {name + (str(number) if number else ""): (prefix,) for number, prefix in enumerate(prefixes)}
        return splits


# The options of the translation task. This file imports no torch.


@dataclass(frozen=True)
class DocumentTranslationConfig:
    """Options for cutting documents into units, for training noise, and for BLEU during training."""

    max_doc_tokens: int | None = option(
        None,
        "cut training documents at sentence ends into pieces of at most this many subwords [never cut]",
        basic=True,
        between=(1, None),
    )
    resolutions: tuple[int, ...] = option(
        (),
        "train on every document several times an epoch, in pieces of each of these numbers of sentences; 0: the "
        "whole document, as 1 2 4 0 [0]",
        metavar="N",
        between=(0, None),
        excludes=("unit_sentences",),
    )
    unit_sentences: int | None = option(
        None,
        "train on units of N sentences, whose documents are also read, but not scored; 0: on whole documents, "
        "which gives a model of sentences the batches of a document model [what the architecture writes at once]",
        metavar="N",
        between=(0, None),
    )
    mix_data: tuple[str, ...] = option(
        (),
        "train on the training splits of these data folders too, of the same vocabulary (docnmt-preprocess "
        "--srcdict); in every epoch WEIGHT times, a part of it drawn anew",
        metavar="DIR[=WEIGHT]",
    )
    source_mask: float = option(
        0.0,
        "in training, how often a word of a source sentence that is translated is replaced by <mask>",
        between=(0, Open(1)),
    )
    subword_sampling: float | None = option(
        None,
        "in every epoch, draw another segmentation of all training text: alpha, such as 0.2 (unigram models: "
        "its smoothing, less is more varied; BPE: share of merges left out)",
        metavar="ALPHA",
        between=(Open(0), 1),
    )
    formality_share: float = option(
        0.0,
        "in training, in this share of the documents, each source sentence is told the form of address of its "
        "translation by <formal> or <informal> before it, for --formality of the commands that translate; with "
        "--criterion form_choice models follow it much better",
        between=(0, Open(1)),
    )
    eval_bleu_beam: int = option(
        1, "beam of the validation BLEU, which --eval-bleu or --best-checkpoint-metric bleu asks for", between=(1, None)
    )

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        problems = []
        if len(set(self.resolutions)) < len(self.resolutions):
            problems.append(f"--resolutions {' '.join(map(str, self.resolutions))}: expected different numbers")
        for folder, weight in self.mixed:
            if not 0 < weight < float("inf"):
                problems.append(f"--mix-data {folder}: its weight must be a number above 0, as in {folder}=0.5")
        return problems

    @property
    def mixed(self) -> list[tuple[str, float]]:
        """The folders of `--mix-data` with their weights: 1 if none is given, NaN if it is not a number."""
        mixed = []
        for given in self.mix_data:
            folder, equals, weight = given.rpartition("=")
            try:
                mixed.append((folder, float(weight)) if equals else (given, 1.0))
            except ValueError:
                mixed.append((folder, float("nan")))
        return mixed
