"""Hugging Face Marian folders with random weights, made here, and what transformers does with them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
from transformers import LogitsProcessor, MarianConfig, MarianMTModel, MarianTokenizer

#: Consonants of the words of a language; `k` is in both.
SOUNDS = {"source": "bdfk", "target": "klmn"}
#: Settings of models of several shapes, by what is special about them.
SHAPES: dict[str, dict[str, Any]] = {
    "tied": {},
    "relu, deeper": {"activation_function": "relu", "encoder_layers": 3, "decoder_layers": 2, "encoder_ffn_dim": 24,
                     "decoder_ffn_dim": 24, "seed": 3},
    "gelu, unscaled": {"activation_function": "gelu", "scale_embedding": False, "decoder_layers": 2, "seed": 6},
    "three matrices": {"tie_word_embeddings": False, "share_encoder_decoder_embeddings": False},
    "two vocabularies": {"separate": True, "d_model": 48},
    "two vocabularies, own output": {"separate": True, "tie_word_embeddings": False},
    "BPE": {"kind": "bpe", "encoder_attention_heads": 2, "decoder_attention_heads": 2},
}  # fmt: skip


def sentences(number: int, side: str = "source", seed: int = 0) -> list[str]:
    """Sentences of made-up words, of 1 to 12 words."""
    draw = np.random.default_rng(seed)
    syllables = [first + second for first in SOUNDS[side] for second in "aeiou"]
    words = ["".join(draw.choice(syllables, draw.integers(1, 4))) for _ in range(60)]
    ends = [".", "?", " !"]
    return [" ".join(draw.choice(words, draw.integers(1, 13))) + str(draw.choice(ends)) for _ in range(number)]


def spm(path: Path, texts: list[str], size: int, kind: str) -> list[str]:
    """A SentencePiece model of some texts, and its pieces."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=size, model_type=kind, minloglevel=2,
        hard_vocab_limit=False,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def moved(model: Any) -> None:
    """Change a random model so that its translations depend on what they translate; no gains are 1, no biases 0."""
    for parameter in model.parameters():
        if parameter.requires_grad:  # not the positions
            parameter.add_(0.2 * torch.randn_like(parameter))
    for layer in model.model.decoder.layers:
        for part in (layer.encoder_attn.q_proj, layer.encoder_attn.out_proj):
            part.weight.mul_(6.0)


def table(pieces: list[str], seed: int) -> dict[str, int]:
    """`</s>` and `<unk>` first, `<pad>` last, the pieces in any order between them."""
    mixed = [str(piece) for piece in np.random.default_rng(seed).permutation(sorted(set(pieces)))]
    return {piece: row for row, piece in enumerate(["</s>", "<unk>", *mixed, "<pad>"])}


def write(
    folder: Path, *, seed: int = 0, separate: bool = False, kind: str = "unigram", codes: tuple[str, ...] = (),
    **settings: Any,
) -> None:  # fmt: skip
    """A folder with a random model whose translations depend on what they translate.

    Args:
        separate: a vocabulary for each language. kind: of the SentencePiece models. codes: further entries.
        settings: of the `MarianConfig`.
    """
    folder.mkdir(parents=True)
    pieces = [spm(folder / f"{side}.spm", sentences(400, side), 60, kind)[3:] for side in ("source", "target")]
    joint = [*pieces[0], *pieces[1], *codes]
    tables = [table(side, seed) for side in (pieces if separate else [joint])]
    for name, content in zip(("vocab.json", "target_vocab.json"), tables, strict=False):
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    names = {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps(names), encoding="utf-8")
    pad = len(tables[-1]) - 1
    values = {
        "encoder_layers": 2, "decoder_layers": 1, "d_model": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "activation_function": "swish",
        "scale_embedding": True, "vocab_size": len(tables[0]), "decoder_vocab_size": len(tables[-1]),
        "pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad, "max_position_embeddings": 256,
        "share_encoder_decoder_embeddings": not separate, **settings,
    }  # fmt: skip
    torch.manual_seed(seed)
    model = MarianMTModel(MarianConfig(**values)).eval()
    with torch.no_grad():
        moved(model)
        model.final_logits_bias.normal_(std=0.3)[0, 0] = 1.0  # some texts end by themselves
    model.save_pretrained(folder)


class EndAt(LogitsProcessor):
    """What docnmt does at a text's longest length: only `</s>` may follow, at its own probability.

    Transformers instead cuts the text off, or gives `</s>` the probability 1.
    """

    def __init__(self, limit: int, eos: int) -> None:
        self.limit, self.eos = limit, eos

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[1] > self.limit:  # with the token that the decoder begins with
            others = torch.ones_like(scores, dtype=torch.bool)
            others[:, self.eos] = False
            scores = scores.masked_fill(others, -torch.inf)
        return scores


class Scoring:
    """What transformers has loaded."""

    tokenizer: Any
    model: Any

    @torch.no_grad()
    def logits(self, sources: list[str], targets: list[str]) -> list[torch.Tensor]:
        """(L, V) of each target, with its tag where it has one, and of `</s>`, in float64."""
        given = self.tokenizer(sources, text_target=targets, return_tensors="pt", padding=True)
        lengths = (given["labels"] != self.model.config.pad_token_id).sum(1).tolist()
        scores = self.model.double()(**given).logits
        self.model.float()
        return [rows[:length] for rows, length in zip(scores, lengths, strict=True)]

    def generated(self, texts: list[str], beam: int, limit: int, **options: Any) -> Any:
        """Translations by docnmt's algorithm: `early_stopping` ends a sentence when `beam` translations have ended."""
        return self.model.generate(
            **self.tokenizer(texts, return_tensors="pt", padding=True), num_beams=beam, early_stopping=beam > 1,
            max_new_tokens=limit + 5, logits_processor=[EndAt(limit, self.model.config.eos_token_id)],
            return_dict_in_generate=True, output_scores=True, **options,
        )  # fmt: skip


class Loaded(Scoring):
    """A folder as transformers loads it."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = MarianTokenizer.from_pretrained(folder)
        self.model = MarianMTModel.from_pretrained(folder).eval()

    def pieces(self, texts: list[str]) -> list[list[str]]:
        """The subwords of source texts, by their rows: `convert_ids_to_tokens` would take the target's table."""
        names = {row: piece for piece, row in self.tokenizer.encoder.items()}
        return [[names[row] for row in self.tokenizer(text).input_ids] for text in texts]

    def translate(self, texts: list[str], beam: int, limit: int) -> tuple[list[str], list[float] | None]:
        """The best translations, and for a beam their length-normalised scores."""
        banned = [[row] for piece, row in self.tokenizer.get_vocab().items() if piece in ("<brk>", "<mask>")]
        pad = self.model.config.pad_token_id
        output = self.generated(texts, beam, limit, bad_words_ids=[[pad], *banned])
        text = self.tokenizer.batch_decode(
            output.sequences, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text, output.sequences_scores.tolist() if beam > 1 else None
