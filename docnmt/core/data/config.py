"""Options of `docnmt-preprocess` for translation. Imports neither NumPy nor SentencePiece."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from docnmt.core.formats.columns import Columns, parse_columns
from docnmt.registry.options import Needs, Open, flag, option, settings

#: The default of `--vocab-size`.
DEFAULT_VOCAB_SIZE = 8000
#: Options that have an effect only if a vocabulary is trained.
VOCABULARY_OPTIONS = (
    "vocab_size",
    "subword_model",
    "character_coverage",
    "byte_fallback",
    "normalization",
    "normalize_punctuation",
    "subword_sample",
)


@dataclass(frozen=True)
class TranslationPreprocessConfig:
    """Parallel documents: PREFIX.SRC and PREFIX.TGT, a sentence a line, an empty line between documents."""

    source_lang: str = option(
        dataclasses.MISSING, "source language: the ending of its files", metavar="SRC", aliases=("-s",)
    )
    target_lang: str = option(dataclasses.MISSING, "target language likewise", metavar="TGT", aliases=("-t",))
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
        1024,
        "longest sentence, in subwords of its longer side",
        metavar="N",
        basic=True,
        between=(1, None),
    )
    max_document_tokens: int | None = option(
        None,
        "longest document, likewise; by default any, as docnmt-train --max-doc-tokens cuts at sentence ends",
        metavar="N",
        between=(1, None),
    )

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        found = parse_columns(self.columns)[1]
        if not self.trainpref and self.srcdict is None:
            found.append("--trainpref is required (or --srcdict, to preprocess with a vocabulary that exists)")
        elif not (self.trainpref or self.joined_dictionary or self.tgtdict is not None):
            found.append("--no-joined-dictionary without --trainpref needs --tgtdict as well as --srcdict")
        elif not (self.trainpref or self.validpref or self.testpref):
            found.append("nothing to do: give --trainpref, --validpref or --testpref")
        if self.source_lang == self.target_lang:
            found.append(f"--source-lang and --target-lang are both '{self.source_lang}', so their files are the same")
        if self.table_columns().hypothesis:
            found.append("--columns hypothesis=…: has no effect here; it belongs to docnmt-score")
        symbols = self.user_defined_symbols
        for symbol in symbols:
            if symbol.split() != [symbol] or symbols.count(symbol) > 1:
                found.append(f"--user-defined-symbols {symbol!r}: expected each once, and without white space")
        return found

    def useless(self) -> list[str]:
        """Return the given options that need a vocabulary to be trained, if none is."""
        usual = {each.name: each.default for each in settings(type(self))}
        names = [] if self.trains_vocabulary else VOCABULARY_OPTIONS
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
