"""docnmt-convert: a model of one form becomes one of another form.
Reads a folder (`transformers_folder`, `weights`) or a checkpoint, and writes a checkpoint or an export (`export`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from docnmt.apps.convert.export import (
    CONFIG,
    GENERATION,
    OPTIONS,
    SentenceModel,
    read_checkpoint,
    require_ctranslate2,
    require_onnx,
    write_checkpoint,
    write_ctranslate2,
    write_marian,
    write_onnx,
)
from docnmt.apps.convert.transformers_folder import KINDS as MULTILINGUAL
from docnmt.apps.convert.transformers_folder import JsonFile, read_marian, read_multilingual
from docnmt.apps.options import ConvertConfig
from docnmt.core.search.config import BeamSearchConfig
from docnmt.core.tokenizer import BOS, EOS
from docnmt.core.training.checkpoint import load_checkpoint, read_header, save_checkpoint
from docnmt.core.training.dry_run import model_card
from docnmt.runtime.system import (
    BEST,
    LAST,
    UsageError,
    UserError,
    __version__,
    check_folder,
    find_checkpoint,
    replacing_folder,
    write_json,
    write_text,
)

#: The file that marks a folder as written by docnmt-convert.
MARKER = "converted.json"
#: The kind of docnmt's own models; all other kinds are `model_type`s of transformers.
_DOCNMT = "docnmt"
_WRITE: dict[str, Callable[[SentenceModel, Path], None]] = {
    "docnmt": write_checkpoint, "hf-marian": write_marian, "ctranslate2": write_ctranslate2, "onnx": write_onnx,
    "hub-folder": write_checkpoint,
}  # fmt: skip


def convert(config: ConvertConfig, say: Callable[[str], None]) -> None:
    """Write the model of IN to OUT, completely or not at all; `say` receives messages, line by line."""
    source, folder = Path(config.input), Path(config.output)
    kind = _all_of(lambda: _kind(source, config), lambda: _check_output(source, folder, config))
    what, write = _read(source, kind, config, say)
    with replacing_folder(folder, marker=MARKER, overwrite=config.overwrite) as temporary:
        write(temporary)
        if config.to == "hub-folder":  # its card has gaps that only the author can fill
            search = BeamSearchConfig()
            write_text(temporary / "README.md", model_card(temporary / BEST, folder.resolve().name) + "\n")
            settings = {
                "num_beams": search.beam, "length_penalty": search.lenpen, "early_stopping": True, "bos_token_id": BOS,
                "decoder_start_token_id": BOS, "eos_token_id": EOS,
            }  # fmt: skip
            write_json(temporary / GENERATION, settings)
        write_json(temporary / MARKER, {"docnmt": __version__, "from": source.name, "to": config.to})
    say(f"{folder}: written: {what}")
    if config.to == "docnmt":
        say(
            f"a model that starts from it: docnmt-preprocess --srcdict {folder} … --destdir DATA; "
            f"docnmt-train DATA --config {folder / OPTIONS} --finetune-from-model {folder} --arch … --save-dir …"
        )


def _all_of(first: Callable[[], str], *others: Callable[[], None]) -> str:
    """Return the result of the first check; if several checks fail, one error has all their messages."""
    result, problems = "", list[UserError]()
    for check in (first, *others):
        try:
            result = check() or result
        except UserError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise UsageError([text for each in problems for text in getattr(each, "problems", [str(each)])])
    return result


def _check_output(source: Path, folder: Path, config: ConvertConfig) -> None:
    """Check that OUT can be written."""
    check_folder(folder, marker=MARKER, overwrite=config.overwrite)
    if source.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{folder}: would take the place of {source}, which is read; give another folder")
    if config.to == "ctranslate2":
        require_ctranslate2()
    if config.to == "onnx":
        require_onnx()


def _kind(source: Path, config: ConvertConfig) -> str:
    """Return the kind of IN: a `model_type` of transformers, or docnmt's. No weights are read."""
    if not source.exists():
        raise UserError(f"{source}: no such file or folder")
    if source.is_file() and (source.suffix == ".json" or (source.parent / CONFIG).is_file()):
        raise UserError(f"{source}: is one file of a folder; give the folder, {source.resolve().parent}")
    is_folder = (source / CONFIG).is_file()
    for name, model in (("source.spm", "a Marian"), ("sentencepiece.bpe.model", "an M2M100, NLLB or mBART-50")):
        if not is_folder and (source / name).is_file():
            raise UserError(f"{source / CONFIG}: no such file; a folder of {model} model has one")
    kind = str(JsonFile(source / CONFIG).values.get("model_type")) if is_folder else _DOCNMT
    if not is_folder:
        read_header(_checkpoint(source))
    problems = []
    if config.to == {"marian": "hf-marian"}.get(kind, kind):
        problems.append(f"--to {config.to}: {source} is in this form already")
    if config.to == "hf-marian" and kind in MULTILINGUAL:
        why = "norms its layers before and has other positions"
        problems.append(f"--to hf-marian: {source} is {MULTILINGUAL[kind]}, which {why}; take docnmt or ctranslate2")
    if config.languages and kind not in MULTILINGUAL:
        problems.append(f"--languages is for M2M100, NLLB and mBART-50; {source} is none")
    given = {"--source-lang": config.source_lang, "--target-lang": config.target_lang}
    useless = [name for name, value in given.items() if value is not None and not is_folder]
    problems += [f"{name} has no effect: the checkpoint {source} has its languages" for name in useless]
    if problems:
        raise UsageError(problems)
    return kind


def _checkpoint(source: Path) -> Path:
    """Return the path of the checkpoint that IN is or contains."""
    if source.is_dir() and not any((source / name).is_file() for name in (BEST, LAST)):
        expected = f"a folder of transformers with {CONFIG}, or a --save-dir with {BEST} or {LAST}"
        raise UserError(f"{source}: holds no model; expected {expected}")
    return find_checkpoint(source)


def _read(
    source: Path, kind: str, config: ConvertConfig, say: Callable[[str], None]
) -> tuple[str, Callable[[Path], None]]:
    """Return a description of the model, and a function that writes it into a folder."""
    is_folder = kind != _DOCNMT
    if not is_folder and config.to == "hub-folder":
        file = find_checkpoint(source)
        checkpoint = load_checkpoint(file, optimizer=False)
        what = f"{checkpoint.header['arch']} of {file}"
        return what, lambda folder: save_checkpoint(folder / BEST, checkpoint.header, checkpoint.tensors)
    if kind in MULTILINGUAL:
        sentence = read_multilingual(source, config, say)
    elif is_folder:
        sentence = read_marian(source, (config.source_lang, config.target_lang), say)
    else:
        sentence = read_checkpoint(source, config.to)  # texts are prepared before they are cut, and not there
        sides = [each.preparation for each in (sentence.task.source_tokenizer, sentence.task.target_tokenizer)]
        if any(each.punctuation for each in sides):
            say(f"note: --normalize-punctuation: {config.to} does not do it; give it text with uniform punctuation")
        if tags := " and ".join(each.tags[each.tag] for each in sides if each.tag):
            say(f"note: {config.to} does not put {tags} before texts, as docnmt does; do it yourself")
    return str(sentence), partial(_WRITE[config.to], sentence)
