"""What docnmt-convert does: read one form, write another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docnmt.apps.convert.config import ConvertConfig
from docnmt.apps.convert.ctranslate import require_ctranslate2, write_ctranslate2
from docnmt.apps.convert.marian import CONFIG, read_marian, write_marian
from docnmt.apps.convert.sentence_model import OPTIONS, SentenceModel, read_checkpoint, write_checkpoint
from docnmt.core.training.checkpoint import read_header
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.files import check_folder, find_checkpoint, replacing_folder, write_json
from docnmt.runtime.version import __version__

#: The file by which a folder is known to be ours.
MARKER = "converted.json"
_WRITE: dict[str, Callable[[SentenceModel, Path], None]] = {
    "docnmt": write_checkpoint, "hf-marian": write_marian, "ctranslate2": write_ctranslate2,
}  # fmt: skip


def convert(config: ConvertConfig, say: Callable[[str], None]) -> None:
    """Write the model of IN to OUT, whole or not at all; `say` takes what there is to know, line by line.

    Raises:
        UserError: IN cannot be read or expressed in the other form, or OUT is there and may not be replaced.
    """
    source, folder = Path(config.input), Path(config.output)
    if not source.exists():
        raise UserError(f"{source}: no such file or folder")
    check_folder(folder, marker=MARKER, overwrite=config.overwrite)
    if source.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{folder}: would take the place of {source}, which is read; give another folder")
    if config.to == "ctranslate2":
        require_ctranslate2()
    sentence = _read(source, config, say)
    with replacing_folder(folder, marker=MARKER, overwrite=config.overwrite) as temporary:
        _WRITE[config.to](sentence, temporary)
        write_json(temporary / MARKER, {"docnmt": __version__, "from": source.name, "to": config.to})
    say(f"{folder}: written: {sentence}")
    if config.to == "docnmt":
        say(
            f"a model that starts from it: docnmt-preprocess --srcdict {folder} … --destdir DATA; "
            f"docnmt-train DATA --config {folder / OPTIONS} --finetune-from-model {folder} --arch … --save-dir …"
        )


def _read(source: Path, config: ConvertConfig, say: Callable[[str], None]) -> SentenceModel:
    is_marian = (source / CONFIG).is_file()
    if not is_marian and (source / "source.spm").is_file():
        raise UserError(f"{source / CONFIG}: no such file; a folder of a Marian model has one")
    if config.to == ("hf-marian" if is_marian else "docnmt"):
        if not is_marian:
            read_header(find_checkpoint(source))  # says so where it is no checkpoint at all
        raise UsageError(f"--to {config.to}: {source} is in this form already")
    if is_marian:
        return read_marian(source, (config.source_lang, config.target_lang), say)
    given = {"--source-lang": config.source_lang, "--target-lang": config.target_lang}
    if useless := [name for name, value in given.items() if value is not None]:
        raise UsageError([f"{name} has no effect: the checkpoint {source} has its languages" for name in useless])
    return read_checkpoint(source, config.to)
