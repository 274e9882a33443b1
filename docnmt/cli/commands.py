"""All commands but train and score, as data: name, summary, description, examples, sections, body.

Bodies import what computes when they run: `--help` answers at once.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from docnmt.apps.documents.kinds import groups
from docnmt.apps.options import (
    AlignConfig,
    CompareConfig,
    ConvertConfig,
    GenerateConfig,
    MemoryConfig,
    ModelsConfig,
    PageConfig,
    ServeConfig,
    TranslateConfig,
    check_memory_window,
)
from docnmt.cli.command import SEARCH, Chosen, Command, Given, sections_of
from docnmt.cli.score import SCORE, check_one_translation
from docnmt.cli.train import TRAIN
from docnmt.core.scoring.config import ReportConfig
from docnmt.core.search.config import GenerationConfig
from docnmt.options import Section, option
from docnmt.other_tasks.options import ClassifyConfig, EmbedConfig, SentEvalConfig
from docnmt.registry import Registry
from docnmt.runtime.system import UserError, check_new, find_checkpoint, printable

#: Every command by its name, in the order of `docnmt --help`.
COMMANDS: dict[str, Command] = {}


def _command(
    name: str, summary: str, description: str, examples: str, *sections: Section | Chosen, more: Callable[[], str] = str
) -> Callable[[Callable[[Given, dict[str, Any]], object]], Command]:
    """Return a decorator that makes a command of its body, a function of the words and of the configuration."""

    def _decorate(body: Callable[[Given, dict[str, Any]], object]) -> Command:
        command = Command(
            name, summary, description, examples, sections, lambda given: body(given, command.config(given)), more=more
        )
        COMMANDS[name] = command
        return command

    return _decorate


def _note(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)


# Data.

#: The preprocessor of each task: a function of its options and of `say`, which is called with each line of the report.
PREPROCESSORS: Registry[Callable[[Any, Callable[[str], None]], None]] = Registry("task")
for _task, _target, _config in (
    ("document_translation", "core.preprocess:preprocess_translation", "core.data_options:TranslationPreprocessConfig"),
    ("text_classification", "other_tasks.classification:preprocess_classification",
     "other_tasks.options:ClassificationPreprocessConfig"),
    ("nli", "other_tasks.sentence_vectors.use:preprocess_nli", "other_tasks.options:NliPreprocessConfig"),
):  # fmt: skip
    PREPROCESSORS.add(_task, f"docnmt.{_target}", config=f"docnmt.{_config}")


@dataclass(frozen=True)
class TaskConfig:
    """The option for the task."""

    task: str = option(
        "document_translation", "what the data is for; it is stored with it", choices=PREPROCESSORS.names, basic=True
    )


@_command(
    "preprocess",
    "turn text into a folder of arrays",
    """Check a corpus, train its vocabulary and write it to a folder of arrays that docnmt-train reads.
Nothing is written unless everything is in order, and the folder appears whole or not at all.

Parallel documents (the default task) are PREFIX.en and PREFIX.de: UTF-8, a sentence a line, an empty line between
documents. Sections and paragraphs may stand in PREFIX.levels.tsv, a row a line, or be opened by <p> lines; <d> lines
may open documents instead of empty lines; WMT files are PREFIX.en-de.xml; several references PREFIX.de0, PREFIX.de1.
A PREFIX that ends in .tsv, .jsonl or .parquet (also .gz, .zst) is a table of both sides, whose columns --columns names.
Other tasks have other options: docnmt-preprocess --task nli --help.""",
    """
docnmt-preprocess -s en -t de --trainpref text/train --validpref text/dev --testpref text/test --destdir data-bin
docnmt-preprocess -s en -t de --trainpref text/train --validpref text/dev --destdir data-bin --vocab-size 16000
docnmt-preprocess -s en -t de --trainpref corpus.jsonl.zst --validpref dev.tsv --destdir data-bin
docnmt-preprocess -s en -t de --testpref other/test --srcdict data-bin --destdir data-other
docnmt-preprocess --task text_classification --train train.tsv --valid valid.tsv --destdir data-bin
""",
    Section("task", TaskConfig),
    Chosen("options of {}", "task", PREPROCESSORS, "document_translation"),
)
def preprocess(given: Given, config: dict[str, Any]) -> None:
    task, options = config.values()
    PREPROCESSORS.get(task.task)(options, _note)


COMMANDS["train"] = TRAIN


# Translation.

#: What all commands that translate have, behind their own options.
_TRANSLATING = (
    Section("models", ModelsConfig), Section("memory", MemoryConfig), Section("generation", GenerationConfig), SEARCH,
)  # fmt: skip


def translating(config: dict[str, Any], *more: str) -> list[Any]:
    """Return the options in the order in which the functions that translate take them, checked together."""
    check_memory_window(config["memory"].memory, config["models"].context_window)
    return [config[name] for name in ("command", "models", "memory", "generation", "search", *more)]


@_command(
    "generate",
    "translate a split of a data folder and score it",
    """Translate a split of a folder that docnmt-preprocess wrote, and score it. On stdout, for each sentence
i in input order: S-i source, T-i reference, H-i score and subwords, D-i score and text, P-i the score of each subword
(natural logs), with --print-alignment A-i; then the scores with their sacreBLEU signatures. In float32
the size and order of batches change at most the last digits of scores.""",
    """
docnmt-generate data-bin/bible --path runs/bible --results-path results/bible
docnmt-generate data-bin/bible --path runs/a/checkpoint_best.safetensors:runs/b --beam 8 --nbest 3 --lenpen 0.6
docnmt-generate data-bin/bible --path runs/bible --gen-subset valid --quiet
docnmt-generate data-bin/bible --path runs/bible --paired results/sentence/hypotheses.txt --per-document
docnmt-generate data-bin/bible --path runs/bible --explain read.html
docnmt-generate data-bin/bible --path runs/bible --generator sampling --temperature 0.8 --top-p 0.9 --seed 7
""",
    Section("command", GenerateConfig),
    *_TRANSLATING,
    Section("report", ReportConfig),
)
def generate(given: Given, config: dict[str, Any]) -> None:
    sections = translating(config, "report")
    from docnmt.apps.commands.generate import generate as generate_split
    from docnmt.runtime.jobs import joined

    with joined():
        generate_split(*sections)


@_command(
    "translate",
    "translate files, or standard input",
    """Translate documents into documents of the same kind, which the end of this help lists: structure, inline formats,
code, links and placeholders stay, and so do the translations that XLIFF, PO and TMX have. Without FILE, translate stdin
to stdout. stdin is one document of raw text in UTF-8: each line is split into sentences, the translation of a line is a
line, and blank lines stay. With --input-format corpus a line is a sentence and an empty line separates documents; with
jsonl or tsv each row comes back with its translation.
With --given FILE, lines that have a translation keep it.""",
    """
docnmt-translate letter.docx -o brief.docx --path runs/bible
docnmt-translate docs/guide/*.md README.html -o translated/ --path runs/bible
docnmt-translate messages.po --path runs/bible > de.po
docnmt-translate --path runs/bible < document.txt > translation.txt
docnmt-translate --path runs/bible --input-format corpus < test.en > test.de
docnmt-translate --path runs/bible --given half.de < document.txt > whole.de
docnmt-translate --path runs/bible --input-format jsonl < wmt24pp.jsonl > translated.jsonl
docnmt-translate --path runs/bible --glossary terms.tsv --explain read.html < document.txt
docnmt-translate --path runs/a:runs/b --beam 8 --device cuda < document.txt
""",
    Section("command", TranslateConfig),
    *_TRANSLATING,
    more=lambda: "kinds of documents:" + "".join(f"\n  {name}: {' '.join(ends)}" for name, ends in groups().items()),
)
def translate(given: Given, config: dict[str, Any]) -> None:
    sections = translating(config)
    check_one_translation(config)
    from docnmt.apps.commands.translate import translate_files, translate_stream

    files = bool(config["command"].files)
    if files:
        translate_files(sys.stdout, *sections)
    elif sys.stdin is None:
        raise UserError("stdin is closed; expected: docnmt-translate < document.txt > translation.txt ...")
    else:
        translate_stream(sys.stdin.buffer, sys.stdout, *sections)


COMMANDS["score"] = SCORE


@_command(
    "compare",
    "train and score systems with several seeds",
    """Compare systems over seeds: train them one after the other, translate and score test sets, answer contrastive
ones, and print one table with intervals and p-values, also as FOLDER/comparison.md and comparison.json. What an
earlier call finished is not done again. Systems with unequal updates, data or starts are refused unless FILE.yaml
says that they may differ.""",
    """
docnmt-compare comparison.yaml
docnmt-compare comparison.yaml --dry-run
docnmt-compare comparison.yaml --json > comparison.json
""",
    Section("compare", CompareConfig),
)
def compare(given: Given, config: dict[str, Any]) -> None:
    from docnmt.apps.compare import Comparison, markdown, read_plan

    wanted: CompareConfig = config["compare"]
    plugins = () if given.user_dir is None else (given.user_dir,)
    content = Comparison(read_plan(Path(wanted.plan)), plugins, wanted.dry_run).run()
    if content:
        print(json.dumps(content, ensure_ascii=False, indent=1) if wanted.json else markdown(content), end="")


@_command(
    "report",
    "compare systems on one HTML page",
    """Write one HTML page about one or several systems' translations: scores with bootstrap intervals and
pairwise tests, by document, by position and by length, and all of the text, side by side, with the differences marked.
The page has everything in it and asks nothing of the network. Files are those of docnmt-score: a sentence a line, empty
lines between documents.""",
    """
docnmt-report --ref test.de --sys ours.txt theirs.txt --src test.en --out report.html
docnmt-report --ref test.de --sys runs/*/test/hypotheses.txt --out report.html
docnmt-report --ref test.de0 test.de1 --sys ours.txt --names "our model" --ter --out report.html
docnmt-report --ref test.de --sys a.txt b.txt --discourse a.json b.json --out report.html
""",
    Section("report", PageConfig),
)
def report(given: Given, config: dict[str, Any]) -> None:
    from docnmt.apps.report import write_report

    write_report(config["report"])
    print(f"{config['report'].out}: open it in a browser", file=sys.stderr)


# Checkpoints and documents.


@dataclass(frozen=True)
class AverageConfig:
    """Options for the checkpoints and the output."""

    output: str = option(dataclasses.MISSING, "the checkpoint to write", metavar="FILE")
    inputs: tuple[str, ...] = option((), "checkpoint files", metavar="FILE")
    save_dir: str | None = option(None, "or: the folder of a training run", metavar="DIR")
    last: int | None = option(None, "with --save-dir: its N newest numbered checkpoints", between=(1, None))
    overwrite: bool = option(False, "replace --output if it exists")

    def problems(self) -> list[str]:
        """Return a message for each contradiction between the values."""
        if bool(self.inputs) == (self.save_dir is not None):
            return ["give either --inputs FILE … or --save-dir DIR --last N"]
        if (self.save_dir is None) != (self.last is None):
            return ["--save-dir and --last go together"]
        places = [Path(name).resolve() for name in self.inputs]
        twice = [name for number, name in enumerate(self.inputs) if places[number] in places[:number]]
        return [f"--inputs: {name} is named twice" for name in twice[:1]]


@_command(
    "average",
    "average checkpoints",
    """Write the mean of the weights of several checkpoints of one run, which often translates better than any
of them. The result is a checkpoint to generate with, not to train on.""",
    """
docnmt-average --save-dir runs/bible --last 5 --output mean.safetensors   (trained with --keep-last 5)
docnmt-average --inputs a.safetensors b.safetensors --output mean.safetensors
""",
    Section("average", AverageConfig),
)
def average(given: Given, config: dict[str, Any]) -> None:
    average: AverageConfig = config["average"]
    output = Path(average.output)
    from docnmt.core.training.checkpoint import average_checkpoints, last_checkpoints

    inputs = [Path(name) for name in average.inputs]
    if average.save_dir is not None and average.last is not None:
        inputs = last_checkpoints(Path(average.save_dir), average.last)
    check_new(output, overwrite=average.overwrite, reads=inputs)
    average_checkpoints(inputs, output)
    print(f"{output}: mean of {', '.join(map(str, inputs))}", file=sys.stderr)


@dataclass(frozen=True)
class InspectConfig:
    """Options for what is described."""

    path: str = option(dataclasses.MISSING, "a checkpoint, --save-dir or data folder", positional=True, metavar="PATH")
    card: bool = option(False, "print a model card in Markdown, to be sent with the checkpoint", excludes=("verify",))
    verify: bool = option(False, "compare all of it with its checksums; of a --save-dir every checkpoint")


@_command(
    "inspect",
    "describe or verify a checkpoint or a data folder",
    """Print what a checkpoint holds (architecture, parameters, options, progress, scores), or what a folder
of preprocessed data holds. Of a training run's folder its best checkpoint is shown. With --verify everything is
read and compared with its checksums, a line a file; the exit status is 1 if something is damaged.""",
    """
docnmt-inspect runs/bible/checkpoint_best.safetensors
docnmt-inspect runs/bible
docnmt-inspect --card runs/bible > runs/bible/README.md
docnmt-inspect data-bin/bible
docnmt-inspect --verify data-bin/bible
docnmt-inspect --verify runs/bible
""",
    Section("inspect", InspectConfig),
)
def inspect(given: Given, config: dict[str, Any]) -> None:
    wanted: InspectConfig = config["inspect"]
    path = Path(wanted.path)
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    if wanted.verify:
        damaged = []  # the error names the first file, and for a checkpoint the tensor
        for file, state, good in _verified(path):
            print(printable(f"{file}: {state}"), flush=True)
            damaged += [] if good else [f"{file}: {state}"]
        if damaged:
            more = f" (and {len(damaged) - 1} files more)" if len(damaged) > 1 else ""
            raise UserError(f"{damaged[0]}{more}")
    elif wanted.card:
        from docnmt.core.training.dry_run import model_card

        print(printable(model_card(find_checkpoint(path))))
    elif (path / "meta.json").is_file():
        from docnmt.core.preprocess import describe_folder

        print(printable(describe_folder(path)))
    else:
        from docnmt.core.training.dry_run import describe_checkpoint

        print(printable(describe_checkpoint(find_checkpoint(path))))


def _verified(path: Path) -> Iterator[tuple[Path, str, bool]]:
    """Yield each file, the finding, and whether it is intact."""
    if (path / "meta.json").is_file():
        from docnmt.core.corpus import verify_folder

        yield from verify_folder(path)
        return
    from docnmt.core.training.checkpoint import load_checkpoint

    files = sorted(path.glob("checkpoint_*.safetensors")) if path.is_dir() else []
    for file in files or [find_checkpoint(path)]:
        try:
            yield file, f"holds (header and {len(load_checkpoint(file).tensors):,} tensors)", True
        except UserError as error:
            yield file, str(error).removeprefix(f"{file}: "), False


@_command(
    "align",
    "pair the sentences of a document and its translation",
    """Find which sentences of a document and its translation belong together, and write the pairs as a
translation memory (OUT.tmx) or as a corpus to train on (OUT.en, OUT.de). Lengths decide, after Gale and Church, with
headings and paragraphs, with words that are alike on both sides, and with --path a translation model. Up to two
sentences of a side become one pair. Every sentence without a counterpart is named on stderr; no pair has it.""",
    """
docnmt-align contract.en.docx contract.de.docx -o contract.tmx
docnmt-align guide.md leitfaden.md -o guide -s en -t de
docnmt-align raw.en raw.de -o aligned
docnmt-align page.html seite.html -o page.tmx --path runs/bible
""",
    Section("align", AlignConfig),
)
def align(given: Given, config: dict[str, Any]) -> None:
    from docnmt.apps.align import align_files

    align_files(config["align"], _note)


@_command(
    "convert",
    "convert models from and to other toolkits",
    """Convert a translation model of single sentences from one form to another; what IN is, is recognised.

docnmt       a folder with a checkpoint, which docnmt-translate, docnmt-train --finetune-from-model and
             docnmt-preprocess --srcdict take
hf-marian    a folder of Hugging Face transformers' MarianMTModel and MarianTokenizer, as OPUS-MT's models are
             (weights in model.safetensors; pickles are not opened)
ctranslate2  a folder for CTranslate2's Translator, written only (pip install 'docnmt[convert]')
onnx         two graphs, encoder.onnx and step.onnx, for onnxruntime and others, written only
             (pip install 'docnmt[convert]')
hub-folder   a checkpoint with a card, to be uploaded to the Hugging Face hub; of document models, too

Folders of M2M100, NLLB and mBART-50, models of many languages, are read only. Both models compute the same numbers.
Document models have no counterpart in the other toolkits and are refused there.""",
    """
docnmt-convert opus-mt-en-de models/opus --to docnmt
docnmt-convert nllb-200 models/nllb --to docnmt --languages eng_Latn=en deu_Latn=de
docnmt-translate --path models/opus < document.txt > translation.txt
docnmt-convert runs/sentence exported --to hf-marian
docnmt-convert runs/sentence fast --to ctranslate2
""",
    Section("convert", ConvertConfig),
)
def convert(given: Given, config: dict[str, Any]) -> None:
    from docnmt.apps.convert.convert import convert as convert_model

    convert_model(config["convert"], _note)


# Texts and sentences.


@_command(
    "classify",
    "label texts",
    """Label texts with a trained text classifier. Texts come from a file or stdin, one a line; for each a
line with its label and the label's probability goes to stdout, in the same order. With --labelled the file is a table
of texts and labels: accuracy, macro-F1 and confusion matrix go to stderr.""",
    """
docnmt-classify --path runs/news < texts.txt > labels.tsv
docnmt-classify --path runs/news texts.txt --all-probabilities
docnmt-classify --path runs/news --labelled test.tsv --results scores.json > labels.tsv
""",
    Section("options", ClassifyConfig),
)
def classify(given: Given, config: dict[str, Any]) -> None:
    classifying: ClassifyConfig = config["options"]
    if classifying.results is not None:
        check_new(Path(classifying.results), overwrite=classifying.overwrite)
    from docnmt.other_tasks.classification import classify as classify_texts
    from docnmt.runtime.device import tune

    print(tune(), file=sys.stderr)
    classify_texts(classifying, sys.stdout)


@_command(
    "embed",
    "encode sentences as vectors",
    """Encode text, a sentence a line, with a trained sentence encoder (task nli: inferlite and others).
--output gets a row a line, an .npy file: vectors in single precision, or with --codes packed binary codes, eight
bits a byte (numpy.unpackbits). Text is read as it comes, so there may be millions of lines.""",
    """
docnmt-embed --path runs/inferlite --input corpus.txt --output corpus.npy
docnmt-embed --path runs/inferlite-hash --codes --output codes.npy < corpus.txt
""",
    Section("embed", EmbedConfig),
)
def embed(given: Given, config: dict[str, Any]) -> None:
    check_new(Path(config["embed"].output), overwrite=config["embed"].overwrite)
    from docnmt.other_tasks.sentence_vectors.use import embed as embed_text
    from docnmt.runtime.device import tune
    from docnmt.runtime.jobs import joined

    with joined():
        print(tune(), file=sys.stderr)
        embed_text(config["embed"])


@_command(
    "senteval",
    "evaluate sentence vectors",
    """Evaluate sentence vectors on SentEval's transfer tasks by its protocol, on CPU: a trained sentence
encoder (--path of task nli), a translation model's sentence summaries (--path of a hier_ or cond_transformer whose
decoder reads context), or a baseline from word vectors alone. --results-path is written when all tasks are evaluated.
Accuracies and F1 in percent, correlations times 100.""",
    """
docnmt-senteval --data senteval --path runs/inferlite --results-path results/inferlite.json
docnmt-senteval --data senteval --path runs/hash --representation codes --results-path results/codes.json
docnmt-senteval --data senteval --baseline bow --vectors glove.txt --results-path results/bow.json
docnmt-senteval --data senteval --baseline sif --vectors glove.txt --frequencies enwiki.txt --tasks STS12 SICK-R
""",
    Section("senteval", SentEvalConfig),
)
def senteval(given: Given, config: dict[str, Any]) -> None:
    from docnmt.other_tasks.sentence_vectors.senteval import run_transfer
    from docnmt.runtime.device import tune

    print(tune(), file=sys.stderr)
    print(run_transfer(config["senteval"]))


# The service, and completions for shells.


@_command(
    "serve",
    "translate over HTTP",
    """Translate over HTTP: POST /translate takes documents of sentences or running text and gives what
docnmt-translate gives, sentence by sentence as it is ready if the client wants; requests share the model's batches.
Clients of DeepL, LibreTranslate and OpenAI find their own forms at the same address; POST /sessions opens a document
that stays open while a person translates it. GET / is a page to translate in; /health, /ready, /metrics, /openapi.json
say how the service is and what it offers.""",
    """
docnmt-serve --path runs/bible
docnmt-serve --path runs/bible --port 9000 --token-file ~/.docnmt-token
docnmt-serve --path runs/bible --host 0.0.0.0 --token-file ~/.docnmt-token --proxy 192.0.2.7
curl -H 'Content-Type: application/json' -d '{"text": "In the beginning."}' http://127.0.0.1:8000/translate
curl -N -H 'Accept: application/x-ndjson' -H 'Content-Type: application/json' \\
     -d '{"documents": [["One sentence.", "Another one."]]}' http://127.0.0.1:8000/translate
""",
    Section("command", ServeConfig),
    *_TRANSLATING,
)
def serve(given: Given, config: dict[str, Any]) -> None:
    sections = translating(config)
    check_one_translation(config)
    try:
        from docnmt.apps.serve.run import serve as serve_models
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "docnmt":
            raise
        raise UserError(f"docnmt-serve needs an extra ({error.name}): pip install 'docnmt[serve]'") from error

    serve_models(*sections)


#: Placeholders of option values that are files or folders.
_FILES, _FOLDERS = ("FILE", "CKPT", "PREFIX", "IN", "OUT", "PATH"), ("DIR", "DATA")


@dataclass(frozen=True)
class CompletionConfig:
    """The option for the shell."""

    shell: Literal["bash", "zsh", "fish"] = option(
        dataclasses.MISSING, "bash, zsh or fish", positional=True, metavar="SHELL"
    )


@_command(
    "completion",
    "print completions for a shell",
    """Print what makes a shell complete the options of every docnmt command, their values and files. It is generated
from the options themselves; print it again after an update.""",
    """
docnmt-completion bash > ~/.docnmt-completion.bash   (and in ~/.bashrc: source ~/.docnmt-completion.bash)
docnmt-completion zsh > ~/.docnmt-completion.zsh   (and in ~/.zshrc, behind compinit: source ~/.docnmt-completion.zsh)
docnmt-completion fish > ~/.config/fish/conf.d/docnmt.fish
""",
    Section("completion", CompletionConfig),
)
def completion(given: Given, config: dict[str, Any]) -> None:
    try:
        import shtab
    except ImportError as error:
        raise UserError("docnmt-completion needs shtab: pip install shtab") from error
    for command in COMMANDS.values():
        sections = [section for part in command.sections for section in sections_of(part)]
        parser, _ = command.parser(sections)
        choices = {setting.name: setting.choices for section in sections for setting in section.settings}
        for action in parser._actions:  # the values that shtab offers: names, files, folders
            metavar = str(action.metavar or "").partition("[")[0].partition(".")[0]
            if choices.get(action.dest) and not isinstance(action, argparse.BooleanOptionalAction):
                action.choices = [str(choice) for choice in choices[action.dest] or ()]
            elif metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif metavar in _FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        print(shtab.complete(parser, config["completion"].shell))
