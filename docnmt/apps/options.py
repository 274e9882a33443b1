"""The options of everything that uses a model: align, generate, translate, convert, report, serve.
No torch: the command line reads them before anything is loaded.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from docnmt.core.data_options import parse_columns
from docnmt.core.scoring.config import COLUMNS_HELP, REF_HELP, SAMPLES, SEED
from docnmt.options import Needs, Open, option
from docnmt.runtime.system import UsageError


@dataclass(frozen=True)
class AlignConfig:
    """Options for the files to align and the output."""

    source: str = option(
        dataclasses.MISSING,
        "a document, by its ending .txt .md .html .docx …; with any other ending a corpus: a "
        "sentence a line, an empty line between documents",
        positional=True,
        metavar="SOURCE",
    )
    target: str = option(dataclasses.MISSING, "its translation", positional=True, metavar="TARGET")
    output: str = option(
        dataclasses.MISSING, "OUT.tmx, a translation memory; any other name: a corpus, OUT.SRC and OUT.TGT",
        metavar="OUT", aliases=("-o",),
    )  # fmt: skip
    source_lang: str | None = option(
        None,
        "language of SOURCE [as its name says, in letter.en.docx or corpus.en; else that of the model, or what "
        "py3langid finds]",
        metavar="SRC",
        aliases=("-s",),
        basic=True,
    )
    target_lang: str | None = option(None, "language of TARGET", metavar="TGT", aliases=("-t",), basic=True)
    path: str | None = option(
        None,
        "a translation model from SRC to TGT (checkpoint or --save-dir) that also judges which sentences belong "
        "together",
        metavar="CKPT",
        basic=True,
    )
    device: str = option(
        "auto", "cpu, cuda, cuda:1 …; auto takes cuda where there is one", metavar="NAME", needs="path"
    )
    splitter: Literal["auto", "rules", "sentencex"] = option(
        "auto", "what splits paragraphs of documents into sentences, as in docnmt-translate"
    )
    overwrite: bool = option(False, "replace what stands at --output", basic=True)

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        return [f"SOURCE and TARGET are both {self.source}"] if self.source == self.target else []


# Commands that use trained translation models; the options of the search are in core/search/config.py.

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
        None, "of a model of several languages: the one of the text [as converted or trained]", metavar="SRC",
        aliases=("-s",),
    )  # fmt: skip
    target_lang: str | None = option(
        None, "of a model of several languages: the one of the translation [as for SRC]", metavar="TGT", aliases=("-t",)
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
    """Refuse a context window together with a memory, whose sentences, placed before the document, it would cut off."""
    if memory is not None and context_window is not None:
        raise UsageError(
            "--memory does not go with --context-window: its sentences stand before the document, and a window holds "
            "neighbours only"
        )


_SCORED = Needs("scoring", ("sacrebleu",))
_EXPLAIN = (
    "also write what the models read for each translation, and what would change without the sentences that they read "
    "most: a page (.html) or a line of JSON a sentence (.jsonl)"
)


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
    prefix: str | None = option(
        None, "words with which translations begin: a line for each sentence of the split, empty where there are none",
        metavar="FILE", basic=True,
    )  # fmt: skip
    explain: str | None = option(None, _EXPLAIN, metavar="FILE", basic=True)
    print_alignment: bool = option(
        False, "also print which word of its source each word of a translation stands for: A-i, pairs S-T of words"
    )
    results_path: str | None = option(
        None, "also write hypotheses.txt and scores.json into this folder; with --print-alignment also alignment.txt",
        metavar="DIR", basic=True,
    )  # fmt: skip
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
        None, "sacreBLEU's tokenizer: 13a, zh, ja-mecab, flores200, char, none … [the target language's]",
        metavar="NAME", needs=_SCORED,
    )  # fmt: skip

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        problems = []
        if self.quiet and self.scoring == "none" and self.results_path is None and self.explain is None:
            problems.append("--quiet --scoring none leaves nothing to print; give --results-path")
        if self.quiet and self.print_alignment and self.results_path is None:
            problems.append("--print-alignment has no effect with --quiet; give --results-path")
        return problems


_STDIN = Needs("files", ((),), says="text from stdin (< FILE); of files the ending says what they are")
_LINES = Needs("input_format", ("text", "corpus"))


@dataclass(frozen=True)
class TranslateConfig:
    """Options of `docnmt-translate` besides those of the search."""

    files: tuple[str, ...] = option((), "documents, by their endings; none: stdin", positional=True, metavar="FILE")
    output: str | None = option(
        None, "where the translated document goes, of the same kind; a folder for several [stdout, for one]",
        metavar="OUT", aliases=["-o"], basic=True, needs=Needs("files", says="FILE; stdin goes to stdout"),
    )  # fmt: skip
    overwrite: bool = option(
        False, "replace what stands at --output and --explain", basic=True,
        needs=Needs(("files", "explain"), says="FILE or --explain"),
    )  # fmt: skip
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
    prefix: str | None = option(
        None,
        "words with which translations begin: a line for each line of stdin, empty where there are none; of a line of "
        "several sentences the first translation begins with them",
        metavar="FILE",
        basic=True,
        needs=[_STDIN, _LINES],
    )
    explain: str | None = option(None, _EXPLAIN, metavar="FILE", basic=True)
    print_alignment: bool = option(
        False, "after each line ` ||| ` and which word of its source each word stands for: pairs S-T of words",
        needs=[_STDIN, _LINES], excludes=("given",),
    )  # fmt: skip
    columns: tuple[str, ...] = option(
        (), "what the columns of jsonl and tsv are called: source=NAME document=NAME [as in docnmt-preprocess]",
        metavar="ROLE=NAME", needs=Needs("input_format", ("jsonl", "tsv")),
    )  # fmt: skip
    splitter: Literal["auto", "rules", "sentencex"] = option(
        "auto",
        "what splits lines into sentences: docnmt's rules, made for English and German; the package sentencex "
        "(docnmt[documents]), mended by these rules; auto: sentencex for all other languages",
        needs=Needs("input_format", without=("corpus",)),
    )
    protect: bool = option(
        True,
        "placeholders, addresses, tags and the like come through as they are: a sentence whose translation lacks one "
        "is translated again, between them",
    )

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        several = self.output is None and len(self.files) > 1
        problems = [f"{len(self.files)} files: give a folder for their translations with -o DIR"] if several else []
        return parse_columns(self.columns)[1] + problems


@dataclass(frozen=True)
class ConvertConfig:
    """Options for the model to convert and for the form to write."""

    input: str = option(
        dataclasses.MISSING,
        "a Hugging Face folder of Marian, M2M100, NLLB or mBART-50, or a docnmt checkpoint or --save-dir",
        positional=True,
        metavar="IN",
    )
    output: str = option(dataclasses.MISSING, "the folder to write", positional=True, metavar="OUT")
    to: Literal["docnmt", "hf-marian", "ctranslate2", "onnx", "hub-folder"] = option(
        dataclasses.MISSING, "the form to write"
    )
    source_lang: str | None = option(
        None,
        "of a Hugging Face folder: the source language, as the files of your data end [that of "
        "tokenizer_config.json, or the first of --languages]",
        metavar="SRC",
        aliases=("-s",),
    )
    target_lang: str | None = option(None, "its target language [the last]", metavar="TGT", aliases=("-t",))
    languages: tuple[str, ...] = option(
        (),
        "of M2M100, NLLB and mBART-50: keep only the entries of the vocabulary that these languages need, by their "
        "scripts; CODE=NAME: under another name, as the files of your data end [all]",
        metavar="CODE[=NAME]",
    )
    overwrite: bool = option(False, "replace OUT if docnmt-convert wrote it")


@dataclass(frozen=True)
class PageConfig:
    """Options for the systems, the references and the page."""

    ref: tuple[str, ...] = option(dataclasses.MISSING, REF_HELP, metavar="FILE")
    sys: tuple[str, ...] = option(
        dataclasses.MISSING, "translations, a file a system: the reference's lines, line by line", metavar="FILE"
    )
    out: str = option(
        dataclasses.MISSING, "the page; an earlier report is replaced, no other file", metavar="PAGE.html"
    )
    src: str | None = option(None, "the source; adds lexical consistency", metavar="FILE", basic=True)
    names: tuple[str, ...] = option(
        (), "names of the systems, in the order of --sys [their paths]", metavar="NAME", basic=True
    )
    discourse: tuple[str, ...] = option(
        (), "what docnmt-score --contrastive (or --generative) … --json printed, a file a system and test",
        metavar="FILE", basic=True,
    )  # fmt: skip
    title: str = option("Translation report", "heading of the page", basic=True)
    ter: bool = option(False, "also TER", basic=True)
    source_lang: str | None = option(
        None, "code of the source's language, for fonts and screen readers", metavar="CODE", needs="src"
    )
    target_lang: str | None = option(None, "code of the target's language", metavar="CODE")
    columns: tuple[str, ...] = option((), COLUMNS_HELP, metavar="ROLE=NAME")
    sacrebleu_tokenize: str = option("13a", "sacreBLEU's tokenizer for BLEU: 13a, intl, zh, char …", metavar="NAME")
    samples: int = option(SAMPLES, "bootstrap samples", between=(1, 100_000))
    seed: int = option(SEED, "of the bootstrap", between=(0, None))

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        problems = parse_columns(self.columns)[1]
        if self.names and len(self.names) != len(self.sys):
            problems.append(f"--names: expected {len(self.sys)}, one for each file of --sys, got {len(self.names)}")
        return problems


@dataclass(frozen=True)
class ServeConfig:
    """Options for the service's address, its access control and its limits."""

    host: str = option(
        "127.0.0.1",
        "address to listen on; others than this machine's own, such as 0.0.0.0, ask for --token-file or --open",
        metavar="ADDRESS",
        basic=True,
    )
    port: int = option(8000, "port to listen on; 0: a free one, which is printed", basic=True, between=(0, 65535))
    token_file: str | None = option(
        None, "file with a secret, which requests must bring: Authorization: Bearer SECRET; only its owner may read it",
        metavar="FILE", basic=True,
    )  # fmt: skip
    open: bool = option(
        False,
        "whoever reaches --host may use the service, without a secret; else another --host is refused",
        basic=True,
    )
    proxy: tuple[str, ...] = option(
        (),
        "addresses or networks of proxies before the service, whose X-Forwarded-For and X-Forwarded-Proto are believed",
        metavar="ADDRESS",
        basic=True,
    )
    allowed_hosts: tuple[str, ...] = option(
        (), "without a token: names beside localhost and IP addresses by which the service is called", metavar="NAME",
        basic=True,
    )  # fmt: skip
    splitter: Literal["auto", "rules", "sentencex"] = option(
        "auto", "what splits running text into sentences, as in docnmt-translate"
    )
    protect: bool = option(
        True, "placeholders, addresses, tags and the like come through as they are, as in docnmt-translate"
    )
    max_body: int = option(8_000_000, "bytes of a request's body, at most", metavar="BYTES", between=(1, None))
    max_request_tokens: int = option(
        100_000, "source subwords of a request, at most; others wait while a document is encoded", metavar="N",
        between=(1, None),
    )  # fmt: skip
    max_sentence_tokens: int = option(
        2000,
        "source subwords of one sentence, at most: its time is quadratic; running text is cut into sentences first",
        metavar="N",
        between=(1, None),
    )
    max_explain_tokens: int = option(
        4000, "the same of a request that wants to know what was read, for which all others wait", metavar="N",
        between=(0, None),
    )  # fmt: skip
    queue_length: int = option(
        256, "requests that are read, wait or are translated; further ones get a 503", between=(1, None)
    )
    request_timeout: float = option(
        600.0, "seconds until an answer is given up", metavar="SECONDS", between=(Open(0), None)
    )
    body_timeout: float = option(
        30.0, "seconds in which a request must have arrived", metavar="SECONDS", between=(Open(0), None)
    )
    file_timeout: float = option(
        60.0, "seconds in which a document must be read, and its translation written", metavar="SECONDS",
        between=(Open(0), None),
    )  # fmt: skip
    file_memory: int = option(
        1000, "megabytes that a process may use that reads documents", metavar="MB", between=(100, None)
    )
    file_processes: int = option(4, "processes that read documents, at most", metavar="N", between=(1, None))
    max_sessions: int = option(
        100, "documents that translators may have open at once (POST /sessions)", metavar="N", between=(0, None)
    )
    session_idle: float = option(
        3600.0, "seconds after which an open document that nobody uses is forgotten", metavar="SECONDS",
        between=(Open(0), None),
    )  # fmt: skip
    grace: float = option(
        30.0, "seconds to finish what is at work after SIGTERM or Ctrl-C", metavar="SECONDS", between=(0, None)
    )


@dataclass(frozen=True)
class CompareConfig:
    """Options for comparing systems over seeds."""

    plan: str = option(
        dataclasses.MISSING, "systems, seeds, test sets (docs/guide/compare.md)", positional=True, metavar="FILE.yaml"
    )
    json: bool = option(False, "print JSON instead of Markdown")
    dry_run: bool = option(False, "print the commands that would be run")
