"""The command docnmt-convert: convert sentence models of other toolkits to docnmt and back."""

from __future__ import annotations

import sys

from docnmt.apps.options import ConvertConfig
from docnmt.cli.command import Command, Given
from docnmt.options import Section

COMMAND = Command(
    "docnmt-convert",
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
)


@COMMAND.main
def main(given: Given) -> None:
    """Parse the options and convert."""
    config: ConvertConfig = COMMAND.resolve(given, [Section("convert", ConvertConfig)])["convert"]
    from docnmt.apps.convert.convert import convert

    convert(config, lambda line: print(line, file=sys.stderr, flush=True))


if __name__ == "__main__":
    sys.exit(main())
