"""Hugging Face folders of M2M100, NLLB and mBART-50 with random weights, and what transformers does with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import marian_models
import numpy as np
import torch
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    NllbTokenizer,
)

#: The languages of the NLLB folders here. M2M100's tokenizer brings its own.
CODES = ("eng_Latn", "fra_Latn", "rus_Cyrl", "zho_Hans", "deu_Latn")
#: Settings of models of several shapes, by what is special about them.
SHAPES: dict[str, dict[str, Any]] = {
    "M2M100": {"family": "m2m100"},
    "M2M100, deeper, unscaled, unigram": {"family": "m2m100", "encoder_layers": 3, "decoder_layers": 2, "seed": 3,
                                          "scale_embedding": False, "d_model": 48, "kind": "unigram"},
    "NLLB": {"family": "nllb"},
    "NLLB, own output": {"family": "nllb", "tie_word_embeddings": False, "seed": 4, "activation_function": "gelu",
                         "encoder_attention_heads": 2, "decoder_attention_heads": 2},
    "mBART-50": {"family": "mbart50", "kind": "unigram", "scale_embedding": True},
    "mBART-50, deeper, unscaled, own output, bias": {"family": "mbart50", "kind": "unigram", "encoder_layers": 1,
                         "decoder_layers": 2, "d_model": 48, "seed": 5, "tie_word_embeddings": False,
                         "activation_function": "relu", "bias": True},
}  # fmt: skip


def sentences(number: int, seed: int = 0) -> list[str]:
    """Sentences of made-up words, a third of them in Cyrillic letters."""
    latin = marian_models.sentences(number, "source", seed)
    table = str.maketrans("bdfkaeiou", "бдфкаеиоу")
    return [text.translate(table) if n % 3 == 2 else text for n, text in enumerate(latin)]


def write(
    folder: Path, *, family: str, kind: str = "bpe", seed: int = 0, shards: str | None = None, bias: bool = False,
    **more: Any,
) -> None:  # fmt: skip
    """A folder with a random model whose translations depend on what they translate.

    Args:
        family: m2m100, nllb or mbart50. kind: of the SentencePiece model. shards: the most bytes of a file of weights.
        bias: of the output, at random. more: settings of the model's configuration.
    """
    folder.mkdir(parents=True)
    pieces = marian_models.spm(folder / "sentencepiece.bpe.model", sentences(600), 120, kind)
    size = 4 + len(pieces) - 3
    if family == "m2m100":
        order = [str(piece) for piece in np.random.default_rng(seed).permutation(pieces[3:])]
        table = {name: row for row, name in enumerate(["<s>", "<pad>", "</s>", "<unk>", *order])}
        (folder / "vocab.json").write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")
        names: dict[str, Any] = {"tokenizer_class": "M2M100Tokenizer", "src_lang": "en", "tgt_lang": "fr"}
        size += 100 + 8  # languages, and entries that stand for nothing
    elif family == "mbart50":
        names = {"tokenizer_class": "MBart50Tokenizer", "src_lang": "en_XX", "tgt_lang": "fr_XX"}
        size += 52 + 1  # languages, and <mask>
    else:
        names = {"tokenizer_class": "NllbTokenizer", "src_lang": "eng_Latn", "tgt_lang": "fra_Latn"}
        rows = [*CODES, "<mask>"]
        every = dict(enumerate(["<s>", "<pad>", "</s>", "<unk>"])) | dict(enumerate(rows, 1 + len(pieces)))
        names["added_tokens_decoder"] = {row: {"content": name, "special": True} for row, name in every.items()}
        names["additional_special_tokens"] = list(CODES)
        size += len(CODES) + 1  # and <mask>
    (folder / "tokenizer_config.json").write_text(json.dumps(names), encoding="utf-8")
    values = {
        "encoder_layers": 2, "decoder_layers": 1, "d_model": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 128, "vocab_size": size,
        **more,
    }  # fmt: skip
    torch.manual_seed(seed)
    if family == "mbart50":
        model = MBartForConditionalGeneration(MBartConfig(**values, decoder_start_token_id=2)).eval()
    else:
        model = M2M100ForConditionalGeneration(M2M100Config(**values)).eval()
    with torch.no_grad():
        if bias:
            model.final_logits_bias.normal_()
        marian_models.moved(model)
        if family != "mbart50":
            _never_padding(model)
    model.save_pretrained(folder, **({} if shards is None else {"max_shard_size": shards}))


def _never_padding(model: M2M100ForConditionalGeneration) -> None:
    """Give `<pad>` the logit -20 after any text: M2M100 gives it no position, and a trained model never writes it.

    What the last normalization multiplies by its weights adds up to 0, so that only its biases make the logit.
    """
    norm = model.model.decoder.layer_norm
    norm.bias.add_(norm.weight, alpha=0.2)  # else they may nearly add up to 0, and the row would be huge
    row = 1 / norm.weight
    model.lm_head.weight[model.config.pad_token_id] = -20 * row / (row @ norm.bias)


class Loaded(marian_models.Scoring):
    """A folder as transformers loads it."""

    def __init__(self, folder: Path) -> None:
        named = json.loads((folder / "tokenizer_config.json").read_text())["tokenizer_class"]
        kinds = {kind.__name__: kind for kind in (M2M100Tokenizer, NllbTokenizer, MBart50Tokenizer)}
        self.tokenizer = kinds[named].from_pretrained(folder)
        model = MBartForConditionalGeneration if named == "MBart50Tokenizer" else M2M100ForConditionalGeneration
        self.model = model.from_pretrained(folder).eval()

    def languages(self, source: str, target: str) -> None:
        """Translate between these from now on."""
        self.tokenizer.src_lang, self.tokenizer.tgt_lang = source, target

    @property
    def target_tag(self) -> int:
        """The row of the target language's tag."""
        name = self.tokenizer.tgt_lang
        return int(self.tokenizer.convert_tokens_to_ids(name if "_" in name else f"__{name}__"))

    def translate(self, texts: list[str], beam: int, limit: int) -> tuple[list[list[int]], list[float] | None]:
        """The rows of the best translations, tag and end included; for a beam also their length-normalised scores."""
        output = self.generated(texts, beam, limit, forced_bos_token_id=self.target_tag)
        rows = [row[1 : row.index(self.model.config.eos_token_id, 1) + 1] for row in output.sequences.tolist()]
        return rows, output.sequences_scores.tolist() if beam > 1 else None

    def text(self, rows: list[int]) -> str:
        """What a translation says, without spaces around it."""
        text = self.tokenizer.decode(rows[1:], skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text).strip()
