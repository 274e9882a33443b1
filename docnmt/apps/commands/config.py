"""The options of commands that use trained translation models, besides those of the search. No torch here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from docnmt.core.formats.columns import parse_columns
from docnmt.registry.options import Except, Needs, option
from docnmt.runtime.errors import UsageError

#: What models compute in when they translate.
Precision = Literal["float32", "fp16", "bf16", "int8"]


@dataclass(frozen=True)
class ModelsConfig:
    """Options for the models, the device, the precision and the context."""

    path: str = option(
        dataclasses.MISSING,
        "checkpoint file, or a --save-dir (its best is taken), or a model on the Hugging Face hub, hf://org/name; "
        "several, joined by ':', are averaged",
        metavar="CKPT[:CKPT...]",
    )
    device: str = option("auto", "cpu, cuda, cuda:1 …; auto takes cuda where there is one", metavar="NAME")
    fp16: bool = option(False, "compute in half precision, on a GPU", excludes=("int8", "bf16"))
    int8: bool = option(
        False, "multiply whole numbers of eight bits, on a CPU: faster, scores differ a little", excludes=("bf16",)
    )
    bf16: bool = option(False, "compute in bfloat16, on a GPU or a CPU that has it: faster, scores differ a little")
    source_lang: str | None = option(
        None,
        "of a model of several languages: the one of the text [as converted or trained]",
        metavar="SRC",
        aliases=("-s",),
    )
    target_lang: str | None = option(
        None, "of a model of several languages: the one to translate into, likewise", metavar="TGT", aliases=("-t",)
    )
    context_window: int | None = option(
        None,
        "read a sentence with at most N sentences of its document before it and N after it; models of several "
        "sentences as one text: N + 1 as one [as trained]",
        basic=True,
        between=(0, None),
    )

    @property
    def precision(self) -> Precision:
        """What the models compute in."""
        chosen: dict[Precision, bool] = {"fp16": self.fp16, "int8": self.int8, "bf16": self.bf16}
        return next((name for name, wanted in chosen.items() if wanted), "float32")


@dataclass(frozen=True)
class MemoryConfig:
    """Options of a translation memory."""

    memory: str | None = option(
        None,
        "before each document, read the most similar training sentences of this folder of docnmt-preprocess with their "
        "translations, for models that read earlier translations",
        metavar="DATA",
        basic=True,
    )
    memory_context: Literal["true", "foreign"] = option(
        "true",
        "foreign: each document gets what resembles the next document's sentences (does the memory matter?)",
        needs="memory",
    )
    memory_sentences: int = option(
        2, "sentences that are read for each sentence", metavar="N", between=(1, None), needs="memory"
    )


def check_memory_window(memory: object, context_window: int | None) -> None:
    """Refuse a context window together with a memory, whose sentences, placed before the document, it would cut off.

    Raises:
        UsageError: both are given.
    """
    if memory is not None and context_window is not None:
        raise UsageError(
            "--memory does not go with --context-window: its sentences stand before the document, and a window holds "
            "neighbours only"
        )


_SCORED = Needs("scoring", ("sacrebleu",))


@dataclass(frozen=True)
class GenerateConfig:
    """Options of `docnmt-generate` besides those of the search."""

    data: str = option(dataclasses.MISSING, "folder written by docnmt-preprocess", positional=True, metavar="DATA")
    gen_subset: str = option("test", "split to translate", metavar="NAME", basic=True)
    gen_first: int | None = option(
        None, "translate only the first N documents of the split", metavar="N", basic=True, between=(1, None)
    )
    prefix_references: float = option(
        0.0,
        "give the model this share of each document, its first sentences, with their references; only the rest is "
        "translated and scored",
        metavar="SHARE",
        basic=True,
        between=(0, 1),
    )
    explain: str | None = option(
        None,
        "also write what the models read for each translation, and what would change without the sentences that "
        "they read most: a page (.html) or a line of JSON a sentence (.jsonl)",
        metavar="FILE",
        basic=True,
    )
    print_alignment: bool = option(
        False, "also print which word of its source each word of a translation stands for: A-i, pairs S-T of words"
    )
    results_path: str | None = option(
        None,
        "also write hypotheses.txt and scores.json into this folder; with --print-alignment also alignment.txt",
        metavar="DIR",
        basic=True,
    )
    overwrite: bool = option(
        False, "replace the results that --results-path holds, and what stands at --plot and --explain"
    )
    quiet: bool = option(False, "print the scores only", basic=True)
    lexical_consistency: bool = option(
        False, "also how many of the terms that a document repeats are translated the same way each time"
    )
    scoring: Literal["sacrebleu", "none"] = option(
        "sacrebleu", "s-BLEU, d-BLEU, chrF and --metrics, or nothing", basic=True
    )
    sacrebleu: bool = option(False, "the same as --scoring sacrebleu", needs=_SCORED)
    sacrebleu_tokenize: str | None = option(
        None,
        "sacreBLEU's tokenizer: 13a, zh, ja-mecab, flores200, char, none … [the target language's]",
        metavar="NAME",
        needs=_SCORED,
    )

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        found = []
        if self.quiet and self.scoring == "none" and self.results_path is None and self.explain is None:
            found.append("--quiet --scoring none leaves nothing to print; give --results-path")
        if self.quiet and self.print_alignment and self.results_path is None:
            found.append("--print-alignment has no effect with --quiet; give --results-path")
        return found


_STDIN = Needs("files", ((),), says="text from stdin (< FILE); of files the ending says what they are")
_LINES = Needs("input_format", ("text", "corpus"))


@dataclass(frozen=True)
class TranslateConfig:
    """Options of `docnmt-translate` besides those of the search."""

    files: tuple[str, ...] = option(
        (),
        "documents, by their endings: .txt .md .mdx .html .epub .docx .docm .dotx .pptx .xlsx .odt .odp .fodt "
        ".xlf .sdlxliff .mqxliff .po .tmx .json .yaml .properties .strings .xml (Android) .resx .srt .vtt .ass; "
        "none: stdin",
        positional=True,
        metavar="FILE",
    )
    output: str | None = option(
        None,
        "where the translated document goes, of the same kind; a folder for several [stdout, for one]",
        metavar="OUT",
        aliases=["-o"],
        basic=True,
        needs=Needs("files", says="FILE; stdin goes to stdout"),
    )
    overwrite: bool = option(
        False,
        "replace what stands at --output and --explain",
        basic=True,
        needs=Needs(("files", "explain"), says="FILE or --explain"),
    )
    input_format: Literal["text", "corpus", "lines", "jsonl", "tsv"] = option(
        "text",
        "text: one document, lines are split into sentences; corpus: a sentence a line, empty lines between documents; "
        r"lines: a document a line, `\n` in it (two characters) parts its lines; jsonl, tsv: a sentence, paragraph or "
        "document a row, which comes back with its translation in a column 'hypothesis'",
        basic=True,
        needs=_STDIN,
    )
    given: str | None = option(
        None,
        "translations that there are already: a line for each line of stdin, empty where there is none. They are "
        "written as they are, and models that read earlier translations read them",
        metavar="FILE",
        basic=True,
        needs=[_STDIN, _LINES],
    )
    explain: str | None = option(
        None,
        "also write what the models read for each translation, and what would change without the sentences that "
        "they read most: a page (.html) or a line of JSON a sentence (.jsonl)",
        metavar="FILE",
        basic=True,
    )
    print_alignment: bool = option(
        False,
        "after each line ` ||| ` and which word of its source each word stands for: pairs S-T of words",
        needs=[_STDIN, _LINES],
        excludes=("given",),
    )
    columns: tuple[str, ...] = option(
        (),
        "what the columns of jsonl and tsv are called: source=NAME document=NAME [as in docnmt-preprocess]",
        metavar="ROLE=NAME",
        needs=Needs("input_format", ("jsonl", "tsv")),
    )
    splitter: Literal["auto", "rules", "sentencex"] = option(
        "auto",
        "what splits lines into sentences: docnmt's rules, made for English and German; the package sentencex "
        "(docnmt[sentencex]), mended by these rules; auto: sentencex for all other languages",
        needs=Needs("input_format", Except(("corpus",))),
    )
    protect: bool = option(
        True,
        "placeholders, addresses, tags and the like come through as they are: a sentence whose translation lacks one "
        "is translated again, between them",
    )

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        several = self.output is None and len(self.files) > 1
        found = [f"{len(self.files)} files: give a folder for their translations with -o DIR"] if several else []
        return parse_columns(self.columns)[1] + found
