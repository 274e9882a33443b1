"""What docnmt is put beside: programs in processes of their own that take turns, a made-up language, a model of it."""

from __future__ import annotations

import importlib.util
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from sentencepiece import sentencepiece_model_pb2 as sentencepiece

from docnmt.apps.convert.convert import SentenceModel, write_checkpoint
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.models.architectures import Transformer
from docnmt.core.models.config import TransformerConfig
from docnmt.core.tokenizer import SPECIAL, UNK, Tokenizer
from docnmt.core.translation_task import DocumentTranslation

#: What one program can be asked to do, by name; each takes plain values and gives plain values.
Ways: TypeAlias = Mapping[str, Callable[..., Any]]
_SYLLABLES = [first + second for first in "bcdfghjklmnpqrstvwxz" for second in "aeiou"]
_ways: Ways = {}


class Apart:
    """A program in a process of its own: what it sets for its products, its memory and its threads reaches no other.

    Args:
        make: called there with `arguments`; returns what can be asked for.
    """

    def __init__(self, make: Callable[..., Ways], *arguments: object) -> None:
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        self._ready = self._pool.submit(_open, make, arguments)

    def __call__(self, name: str, *arguments: object) -> tuple[float, Any]:
        """Processor seconds of all of its threads, and what it gave."""
        self._ready.result()
        return self._pool.submit(_call, name, arguments).result()

    def end(self) -> None:
        """End the process."""
        self._pool.shutdown(cancel_futures=True)


def _open(make: Callable[..., Ways], arguments: tuple[object, ...]) -> None:
    global _ways
    torch.set_num_threads(1)
    _ways = make(*arguments)


def _call(name: str, arguments: tuple[object, ...]) -> tuple[float, Any]:
    begun = time.process_time()
    result = _ways[name](*arguments)
    return time.process_time() - begun, result


def installed(package: str, name: str) -> bool:
    """Whether a toolkit is there; if not, says so."""
    there = importlib.util.find_spec(package) is not None
    if not there:
        print(f"{name}: left out, it is not installed (pip install {package})", flush=True)
    return there


def in_turns(ways: Mapping[str, Callable[[int], float]], repeats: int) -> dict[str, list[float]]:
    """Name → what each way gave in rounds 1, 2 …; round 0 warms up. Every other round goes backwards."""
    values: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(repeats + 1):
        for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
            value = ways[name](number)
            if number:
                values[name].append(value)
    return values


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median and, in brackets, the smallest and the largest."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} – {max(values):,.{digits}f})"


def ratio(values: Sequence[float], others: Sequence[float]) -> str:
    """Of each round, one by the other."""
    return spread([value / other for value, other in zip(values, others, strict=True)])


def vocabulary(size: int) -> Tokenizer:
    """Of made-up words, each an entry of its own: a text has as many subwords as words."""
    model, kinds = sentencepiece.ModelProto(), sentencepiece.ModelProto.SentencePiece
    for number, name in enumerate(SPECIAL):
        model.pieces.add(piece=name, score=0.0, type=kinds.UNKNOWN if number == UNK else kinds.CONTROL)
    for number in range(size - len(SPECIAL)):
        model.pieces.add(piece=f"▁{_word(number)}", score=-10.0)
    spec = model.trainer_spec
    spec.model_type, spec.vocab_size = spec.UNIGRAM, size
    spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id = 0, 1, 2, -1
    spec.unk_piece, spec.bos_piece, spec.eos_piece = SPECIAL[:3]
    model.normalizer_spec.name = "identity"
    return Tokenizer.from_bytes(model.SerializeToString())


def _word(number: int) -> str:
    rest, last = divmod(number, len(_SYLLABLES))
    return (_word(rest - 1) if rest else "") + _SYLLABLES[last]


def sentences(number: int, size: int, lengths: tuple[int, int], seed: int) -> list[str]:
    """Lines of words of `vocabulary(size)`; they have `lengths[0]` to `lengths[1]` words."""
    draw = np.random.default_rng(seed)
    words = [_word(word) for word in range(size - len(SPECIAL))]
    return [" ".join(draw.choice(words, draw.integers(lengths[0], lengths[1] + 1))) for _ in range(number)]


def random_model(folder: Path, vocabulary_size: int, layers: int, width: int) -> None:
    """A folder with an untrained `transformer` that every toolkit can express, with heads of 64."""
    tokenizer = vocabulary(vocabulary_size)
    task = DocumentTranslation(DocumentTranslationConfig(), languages=("en", "de"), tokenizers=(tokenizer, tokenizer))
    config = TransformerConfig(
        encoder_layers=layers, decoder_layers=layers, embed_dim=width, heads=max(width // 64, 1), ffn_dim=4 * width,
        norm="post", position_fusion="add",
    )  # fmt: skip
    torch.manual_seed(0)
    folder.mkdir()
    write_checkpoint(SentenceModel(folder, Transformer.build(config, task), config, task), folder)
