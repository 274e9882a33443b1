"""Subwords: SentencePiece with docnmt's special tokens. The same text and options give the same model, byte for byte."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import sentencepiece

from docnmt.errors import UserError

#: Special tokens; `<brk>` stands between sentences written as one sequence. Text can never produce them.
UNK, BOS, EOS, BRK, MASK = range(5)
SPECIAL = ("<unk>", "<s>", "</s>", "<brk>", "<mask>")

#: Threads of the trainer: fixed, because the model depends on it.
THREADS = 2


class Tokenizer:
    """A SentencePiece model.

    Raises:
        UserError: the bytes are no SentencePiece model, or one without docnmt's special tokens.
    """

    def __init__(self, model: bytes, *, where: str = "tokenizer") -> None:
        self._model = model
        try:
            self._processor: Any = sentencepiece.SentencePieceProcessor(model_proto=model)
            special = tuple(self._processor.id_to_piece(i) for i in range(len(SPECIAL)))
        except (RuntimeError, IndexError, TypeError) as error:
            raise UserError(f"{where}: is not a SentencePiece model (damaged or another kind of file)") from error
        if special != SPECIAL:
            raise UserError(
                f"{where}: its first tokens are {' '.join(special)}, expected {' '.join(SPECIAL)}; "
                "use a model that docnmt-preprocess trained"
            )

    @classmethod
    def from_bytes(cls, model: bytes, *, where: str = "tokenizer") -> Tokenizer:
        return cls(model, where=where)

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        vocab_size: int,
        *,
        model_type: str = "unigram",
        character_coverage: float = 1.0,
        input_sentence_size: int = 5_000_000,
    ) -> Tokenizer:
        """Train on `lines` (at most `input_sentence_size` of them, sampled with a fixed seed).

        Raises:
            UserError: the text does not support `vocab_size` tokens; the message names a number that works.
        """
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=model,
                vocab_size=vocab_size,
                model_type=model_type,
                character_coverage=character_coverage,
                input_sentence_size=input_sentence_size,
                shuffle_input_sentence=True,
                max_sentence_length=1 << 20,
                num_threads=THREADS,
                normalization_rule_name="nmt_nfkc",
                unk_id=UNK, bos_id=BOS, eos_id=EOS, pad_id=-1,
                control_symbols=list(SPECIAL[BRK:]),
                unk_surface=" \N{DOUBLE QUESTION MARK} ",
                minloglevel=2,
            )  # fmt: skip
        except RuntimeError as error:
            raise UserError(_vocabulary_problem(str(error), vocab_size)) from error
        return cls(model.getvalue())

    def to_bytes(self) -> bytes:
        return self._model

    @cached_property
    def hash(self) -> str:
        """sha256 of the model: equal for equal tokenizers."""
        return hashlib.sha256(self._model).hexdigest()

    @property
    def vocab_size(self) -> int:
        return int(self._processor.get_piece_size())

    def vocabulary(self) -> list[str]:
        """All tokens by id."""
        return [self._processor.id_to_piece(i) for i in range(self.vocab_size)]

    def encode(
        self, lines: Sequence[str], *, sample: bool = False, alpha: float = 0.1, seed: int = 0
    ) -> list[list[int]]:
        """Token ids of each line, without `<s>` and `</s>`.

        `sample`: draw segmentations instead of the best one (subword regularisation; `alpha` smooths the draw).
        """
        if not sample:
            return [list(ids) for ids in self._processor.encode(list(lines))]
        sentencepiece.set_random_generator_seed(seed)
        return [
            list(ids) for ids in self._processor.encode(list(lines), enable_sampling=True, alpha=alpha, nbest_size=-1)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids; special tokens but `<unk>` vanish."""
        return str(self._processor.decode([int(i) for i in ids if i == UNK or i >= len(SPECIAL)]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The tokens as strings."""
        return [self._processor.id_to_piece(int(i)) for i in ids]


def _vocabulary_problem(message: str, vocab_size: int) -> str:
    """SentencePiece's complaint as one line that says what to do."""
    limit = re.search(r"value <= (\d+)", message)
    if limit:
        return f"--vocab-size {vocab_size}: the training text supports at most {limit[1]} subwords; give that or less"
    small = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if small:
        return f"--vocab-size {vocab_size}: the training text has {small[1]} characters and needs at least that many"
    return f"--vocab-size {vocab_size}: SentencePiece cannot train on this text: {' '.join(message.split())}"
