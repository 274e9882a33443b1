"""Hugging Face Marian folders with random weights, made here, and what transformers does with them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch

#: Consonants of the words of a language; `k` is in both.
SOUNDS = {"source": "bdfk", "target": "klmn"}


def sentences(number: int, side: str = "source", seed: int = 0) -> list[str]:
    """Sentences of made-up words, of 1 to 12 words."""
    draw = np.random.default_rng(seed)
    syllables = [first + second for first in SOUNDS[side] for second in "aeiou"]
    words = ["".join(draw.choice(syllables, draw.integers(1, 4))) for _ in range(60)]
    return [
        " ".join(draw.choice(words, draw.integers(1, 13))) + str(draw.choice([".", "?", " !"])) for _ in range(number)
    ]


def spm(path: Path, side: str, size: int = 60, kind: str = "unigram") -> list[str]:
    """A SentencePiece model as OPUS-MT has them, and its pieces."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(400, side)), model_writer=model, vocab_size=size, model_type=kind, minloglevel=2,
        hard_vocab_limit=False,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]


def table(pieces: list[str], seed: int) -> dict[str, int]:
    """`</s>` and `<unk>` first, `<pad>` last, the pieces in any order between them."""
    mixed = [str(piece) for piece in np.random.default_rng(seed).permutation(sorted(set(pieces)))]
    return {piece: row for row, piece in enumerate(["</s>", "<unk>", *mixed, "<pad>"])}


def write(folder: Path, *, seed: int = 0, separate: bool = False, kind: str = "unigram", **settings: Any) -> Any:
    """A folder with a random model; the model."""
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True)
    pieces = [spm(folder / f"{side}.spm", side, kind=kind) for side in ("source", "target")]
    tables = [table(side, seed) for side in pieces] if separate else [table(pieces[0] + pieces[1], seed)]
    for name, content in zip(("vocab.json", "target_vocab.json"), tables, strict=False):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    names = {
        "source_lang": "en",
        "target_lang": "de",
        "separate_vocabs": separate,
        "tokenizer_class": "MarianTokenizer",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(names), encoding="utf-8")
    pad = len(tables[-1]) - 1
    sizes = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    values = {
        **sizes, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "activation_function": "swish",
        "scale_embedding": True, "vocab_size": len(tables[0]), "decoder_vocab_size": len(tables[-1]), "pad_token_id": pad,
        "eos_token_id": 0, "decoder_start_token_id": pad, "forced_eos_token_id": 0, "max_position_embeddings": 256,
        "share_encoder_decoder_embeddings": not separate, "bos_token_id": None, **settings,
    }  # fmt: skip
    torch.manual_seed(seed)
    model = MarianMTModel(MarianConfig(**values)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
        model.final_logits_bias.normal_(std=0.3)
        liven(model)
        model.model.decoder.embed_tokens.weight[pad].zero_()
        model.final_logits_bias[0, pad] = 0.0
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(folder)
    return model


def liven(model: Any, words: float = 0.15, end: float = 2.0) -> None:
    """A random model repeats one word for ever. In this one words weigh less than their places and the source more, so
    that what comes next changes from place to place, and texts end."""
    decoder = model.model.decoder
    for matrix in {id(m): m for m in (model.model.encoder.embed_tokens.weight, decoder.embed_tokens.weight)}.values():
        matrix.mul_(words)
    if model.config.tie_word_embeddings:
        decoder.layers[-1].final_layer_norm.weight.div_(words)
    for layer in decoder.layers:
        layer.encoder_attn.out_proj.weight.mul_(4.0)
    model.final_logits_bias[0, model.config.eos_token_id] = end
