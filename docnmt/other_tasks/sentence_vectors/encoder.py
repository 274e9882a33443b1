"""The sentence encoder for use: text becomes vectors or binary codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from docnmt.core.training.checkpoint import load_model
from docnmt.layout import Spans
from docnmt.other_tasks.sentence_vectors.data import PackedSentences, by_length
from docnmt.other_tasks.sentence_vectors.embeddings import Embeddings
from docnmt.other_tasks.sentence_vectors.encoders import InferLiteEncoder, SentencePairModel, SentenceTask, look_up
from docnmt.runtime.errors import UserError

#: A sentence's vector, its code before thresholding (values between 0 and 1), or its code (0 or 1).
Representation = Literal["vectors", "soft", "codes"]


class SentenceEncoder:
    """A trained sentence encoder. A vector does not depend on the sentences encoded with it.

    Args:
        max_tokens: words encoded at once.
        cache_words: rows to cache, for encoders without context, which give a word the same row everywhere.

    Attributes:
        tokens, unknown: words encoded so far, and how many of them have no vector of any type.
    """

    def __init__(
        self, model: SentencePairModel, embeddings: Embeddings, *,
        device: torch.device | str = "cpu", max_tokens: int = 4096, cache_words: int = 20_000,
    ) -> None:  # fmt: skip
        self.model, self.embeddings, self.max_tokens = model.to(device).eval(), embeddings, max_tokens
        self.device = torch.device(device)
        self.width = model.encoder.d_output
        self.bits = 0 if model.hash is None else model.hash.linear.out_features
        self.tokens = self.unknown = 0
        self._encode: Callable[[PackedSentences], Tensor] = model.encode
        if isinstance(model.encoder, InferLiteEncoder) and model.encoder.width == 1:
            self._encode = _WordRows(model.encoder, model.tables, cache_words, max_tokens)

    @classmethod
    def load(cls, path: str | Path, *, device: torch.device | str = "cpu", max_tokens: int = 4096) -> SentenceEncoder:
        """Load the encoder of a checkpoint, or of the best one in a `--save-dir`.

        Raises:
            UserError: it does not exist, is damaged, or is no sentence encoder.
        """
        loaded = load_model(path, device=device)
        if not isinstance(loaded.model, SentencePairModel) or not isinstance(loaded.task, SentenceTask):
            raise UserError(
                f"{path}: is a {loaded.arch}; sentence vectors come from a model of the task nli (inferlite)"
            )
        return cls(loaded.model, loaded.task.embeddings, device=device, max_tokens=max_tokens)

    @torch.no_grad()
    def features(self, sentences: Sequence[Sequence[str]], representation: Representation = "vectors") -> np.ndarray:
        """Encode tokenised sentences as (N, d or bits), float32.

        Raises:
            UserError: codes are requested and the model learned none.
        """
        hash = self.model.hash
        if hash is None and representation != "vectors":
            raise UserError("this model learned no binary codes; train one with --hash-bits 256, 1024 or 4096")
        out = np.zeros((len(sentences), self.width if representation == "vectors" else self.bits), np.float32)
        for rows, vectors in self._blocks(sentences):
            if hash is not None and representation != "vectors":
                vectors = hash(vectors) if representation == "codes" else hash.soft(vectors)
            out[rows] = vectors.float().cpu().numpy()
        return out

    def codes(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """Encode tokenised sentences as codes (N, bits / 8), uint8, eight bits per byte.

        Raises:
            UserError: the model learned no codes.
        """
        return np.packbits(self.features(sentences, "codes") > 0.5, axis=1)

    def _blocks(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[np.ndarray, Tensor]]:
        """Yield sentences of similar length together: their numbers and their vectors."""
        found = [self.embeddings.indices(sentence) for sentence in sentences]
        self.tokens += sum(map(len, found))
        self.unknown += sum(sentence.count(0) for sentence in found)
        indices = [sentence or [0] for sentence in found]
        for rows in by_length(np.array([len(sentence) for sentence in indices], dtype=np.int64), self.max_tokens):
            yield rows, self._encode(PackedSentences.of([indices[row] for row in rows]).to(self.device))


class _WordRows:
    """A cache of the rows of an encoder without context: a sentence is the maximum of its words' rows."""

    def __init__(self, encoder: InferLiteEncoder, tables: list[Tensor], capacity: int, block: int) -> None:
        self.encoder, self.tables, self.capacity = encoder, tables, capacity
        like = encoder.output.weight
        self.rows = like.new_empty(capacity + block, encoder.d_output)  # the last places are for one block only
        self.place = torch.full((len(tables[0]),), -1, device=like.device)
        self.used = 0

    def __call__(self, text: PackedSentences) -> Tensor:
        kinds = text.tokens.unique()
        new = kinds[self.place[kinds] < 0]
        end = self.used + len(new)
        if end > len(self.rows):
            return self.encoder(text.tokens, self.tables, text.spans)  # type: ignore[no-any-return]
        alone = Spans(torch.arange(len(new) + 1, device=new.device))
        self.rows[self.used : end] = self.encoder.words(look_up(self.tables, new, self.rows.dtype), alone)
        self.place[new] = torch.arange(self.used, end, device=new.device)
        pooled = self.encoder.pool(self.rows, text.spans, self.place[text.tokens])
        kept = min(len(new), self.capacity - self.used)
        self.place[new[kept:]] = -1
        self.used += kept
        return pooled
