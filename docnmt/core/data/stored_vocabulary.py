"""Loading of existing vocabularies: of a data folder, of a trained model, or a SentencePiece model by itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import safetensors

from docnmt.core.corpus import META, check_files, read_meta
from docnmt.core.data.directions import directed
from docnmt.core.data.preparation import Preparation
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.runtime.checksums import Seal
from docnmt.runtime.errors import UsageError, UserError
from docnmt.runtime.files import find_checkpoint
from docnmt.runtime.hub import is_address


def stored_tokenizers(path: Path, *languages: str) -> list[Tokenizer]:
    """Load the tokenizer of each language from a data folder, a checkpoint or a --save-dir; equal ones are one object.

    A .model file serves all languages. A joined vocabulary that has the first language serves the others, too. One with
    tags, of a model of several languages, serves all languages that it has tags for.

    Raises:
        UserError: there is no vocabulary, it is damaged, or it lacks a language.
    """
    where, models = _models(path, languages)
    if any(Preparation.of(model).tags for model in models.values()):
        return _tagged(where, models, languages)
    if len(set(models.values())) == 1 and languages[0] in models:
        models = dict.fromkeys(languages, models[languages[0]])
    if missing := [language for language in languages if language not in models]:
        raise UserError(f"{where}: no vocabulary of '{missing[0]}' there; it has {', '.join(models) or 'none'}")
    try:
        made = {model: Tokenizer.from_bytes(model) for model in {models[language] for language in languages}}
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    return [made[models[language]] for language in languages]


def _tagged(where: Path, models: dict[str, bytes], languages: tuple[str, ...]) -> list[Tokenizer]:
    """Load the tokenizers of a model of several languages, with the tags of these two."""
    if len(languages) != 2 or where.suffix == ".model":
        raise UserError(
            f"{where}: a vocabulary with tags for languages has two sides; name its folder or checkpoint, and leave "
            "--no-joined-dictionary and --tgtdict out"
        )
    own = [*models, *models]  # source and target
    source, target = (Tokenizer.from_bytes(models[language]) for language in (own[0], own[1]))
    try:
        return [*directed((source, target), (own[0], own[1]), (languages[0], languages[1]))]
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _models(path: Path, languages: tuple[str, ...]) -> tuple[Path, dict[str, bytes]]:
    """Return the SentencePiece models by language, and the file that lists them."""
    try:
        if (path / META).is_file():
            meta = read_meta(path)
            sides = meta.get("tokenizers", {}).items()
            check_files(path, meta, *(name for _, name in sides))
            return path / META, {meta[f"{side}_lang"]: (path / name).read_bytes() for side, name in sides}
        if path.is_dir() or path.suffix == ".safetensors" or is_address(path):
            file = find_checkpoint(path)
            return file, _of_checkpoint(file)
        return path, dict.fromkeys(languages, path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def _of_checkpoint(file: Path) -> dict[str, bytes]:
    """Load the tokenizers of a translation model; without torch, so only these tensors are read and checked."""
    try:
        with safetensors.safe_open(file, framework="numpy") as content:
            metadata = content.metadata() or {}
            header = json.loads(metadata["docnmt"])
            seal, languages = Seal.read(file, metadata, header), header["task_state"]["languages"]
            sides = ("source", "target" if "tokenizer.target" in content.keys() else "source")  # noqa: SIM118
            models = [_tensor(file, content, f"tokenizer.{side}", seal) for side in sides]
            return dict(zip(languages, models, strict=True))
    except (safetensors.SafetensorError, LookupError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: is no checkpoint of a translation model: {error}") from error


def _tensor(file: Path, content: safetensors.safe_open, name: str, seal: Seal | None) -> bytes:
    """Return the bytes of a tensor, compared with their checksum."""
    array: np.ndarray = content.get_tensor(name)
    if seal is not None:
        seal.check(file, name, array.dtype.name, array.shape, np.ascontiguousarray(array))
    return array.tobytes()
