"""The options of docnmt-convert. No torch here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from docnmt.registry.options import option


@dataclass(frozen=True)
class ConvertConfig:
    """What is converted, and to what."""

    input: str = option(
        dataclasses.MISSING, "a Hugging Face Marian folder, or a docnmt checkpoint or --save-dir", positional=True,
        metavar="IN",
    )  # fmt: skip
    output: str = option(dataclasses.MISSING, "the folder to write", positional=True, metavar="OUT")
    to: Literal["docnmt", "hf-marian", "ctranslate2"] = option(dataclasses.MISSING, "the form to write")
    source_lang: str | None = option(
        None, "of a Marian model: the source language, as the files of your data end [that of tokenizer_config.json]",
        metavar="SRC", aliases=("-s",),
    )  # fmt: skip
    target_lang: str | None = option(None, "the target language likewise", metavar="TGT", aliases=("-t",))
    overwrite: bool = option(False, "replace OUT if docnmt-convert wrote it")
