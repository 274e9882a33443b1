"""The options of docnmt-convert. This file imports no torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from docnmt.registry.options import option


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
    target_lang: str | None = option(None, "the target language likewise [the last]", metavar="TGT", aliases=("-t",))
    languages: tuple[str, ...] = option(
        (),
        "of M2M100, NLLB and mBART-50: keep only the entries of the vocabulary that these languages need, by their "
        "scripts; CODE=NAME: under another name, as the files of your data end [all]",
        metavar="CODE[=NAME]",
    )
    overwrite: bool = option(False, "replace OUT if docnmt-convert wrote it")
