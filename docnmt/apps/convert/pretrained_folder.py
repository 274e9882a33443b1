"""Reading of folders of Hugging Face transformers: weights in one or several files, and added entries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from docnmt.apps.convert.json_file import JsonFile
from docnmt.runtime.errors import UserError

CONFIG, WEIGHTS, GENERATION, TOKENIZER = (
    "config.json",
    "model.safetensors",
    "generation_config.json",
    "tokenizer_config.json",
)
#: The index, which names the file of each tensor, and the file of entries that were added to the vocabulary.
_INDEX, ADDED = f"{WEIGHTS}.index.json", "added_tokens.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")


def check_files(folder: Path, settings: JsonFile, kind: str, needed: Sequence[str], noun: str) -> None:
    """Check that a folder has a model of this kind and the needed files.

    Raises:
        UserError: config.json names another kind, or files are missing.
    """
    found = settings.values.get("model_type")
    if found != kind:
        raise UserError(f"{settings.path}: 'model_type' is {found!r}, expected 'marian', 'm2m_100' or 'mbart'")
    problems = []
    missing = [name for name in needed if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in (WEIGHTS, _INDEX)):
        if any((folder / name).is_file() for name in _PICKLES):
            problems.append(
                f"{folder}: {_PICKLES[0]} is a pickle, which docnmt does not open; have transformers write "
                f"{WEIGHTS}: AutoModelForSeq2SeqLM.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"
            )
        else:
            missing = [WEIGHTS, *missing]
    if missing:
        problems.append(f"{folder}: {', '.join(missing)} missing; expected the files of {noun}")
    if problems:
        raise UserError("; and ".join(problems))


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Return the weights, from one file or from all files that the index names.

    Raises:
        UserError: a file is missing or damaged, or lacks a tensor that the index says it has.
    """
    if (folder / WEIGHTS).is_file():
        return _tensors(folder / WEIGHTS)
    index = JsonFile(folder / _INDEX)
    places = index.values.get("weight_map")
    if not isinstance(places, dict) or not all(_is_plain(name) for name in places.values()):
        raise UserError(f"{index.path}: 'weight_map': expected the name of a file in this folder for each tensor")
    tensors: dict[str, Tensor] = {}
    for name in dict.fromkeys(places.values()):
        tensors |= _tensors(folder / name)
    if missing := places.keys() - tensors.keys():
        raise UserError(f"{index.path}: no file has the tensor '{min(missing)}'")
    return tensors


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and name.endswith(".safetensors") and Path(name).name == name


def _tensors(file: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(file)
    except (safetensors.SafetensorError, OSError) as error:
        raise UserError(f"{file}: is not a whole safetensors file: {error}") from error


def added_tokens(folder: Path) -> dict[str, int]:
    """Return the entries that are not SentencePiece's, special ones and those that were added later, with their rows.

    They are in added_tokens.json, in tokenizer.json or in tokenizer_config.json.

    Raises:
        UserError: a file is damaged.
    """
    found = dict(JsonFile(folder / ADDED, optional=True).rows())
    whole, tokens = (JsonFile(folder / name, optional=True) for name in ("tokenizer.json", TOKENIZER))
    listed, decoder = whole.values.get("added_tokens", []), tokens.values.get("added_tokens_decoder", {})
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UserError(f"{whole.path}: 'added_tokens': expected a list of objects")
    if not isinstance(decoder, dict):
        raise UserError(f"{tokens.path}: 'added_tokens_decoder': expected an object with a token for each row")
    entries = [(whole.path, each.get("id"), each.get("content")) for each in listed]
    entries += [
        (tokens.path, row, each.get("content") if isinstance(each, dict) else each) for row, each in decoder.items()
    ]
    for path, row, content in entries:
        if not str(row).isdecimal() or not isinstance(content, str):
            raise UserError(f"{path}: expected a token and its row, got {content!r} and {row!r}")
        found.setdefault(content, int(str(row)))
    return found
