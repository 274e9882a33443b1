"""A small untrained translation system: task, models, corpora and checkpoints for tests."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from docnmt.core.batch import collate, planned_units
from docnmt.core.corpus import ParallelCorpus, StructureBuilder, TextArray, TokenArray, unit_numbers
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.read_corpus import Facts, TextLines, read_text
from docnmt.core.tokenizer import Tokenizer
from docnmt.core.training.checkpoint import LoadedModel, save_checkpoint, unique_state
from docnmt.core.training.run import TrainingState
from docnmt.core.translation_task import DocumentTranslation
from docnmt.options import to_dict
from docnmt.registry import ARCHITECTURES, MODELS

_VOCABULARY = "the a dog cat house tree sees finds old new in under and then it he they walks sleeps river"
WORDS = _VOCABULARY.split()


def text(documents: int, sentences: int, seed: int = 0) -> list[list[str]]:
    """Documents of random words, of different lengths."""
    rng = np.random.default_rng(seed)
    return [
        [" ".join(rng.choice(WORDS, rng.integers(1, 12))) + "." for _ in range(rng.integers(1, sentences + 1))]
        for _ in range(documents)
    ]


def lines(number: int, seed: int) -> list[str]:
    """So many of its sentences."""
    return [line for document in text(number, 8, seed=seed) for line in document][:number]


@functools.cache
def tokenizer(vocab_size: int = 45) -> Tokenizer:
    return Tokenizer.train([line for document in text(40, 8, seed=9) for line in document], vocab_size)


def task(vocab_size: int = 45, **options: Any) -> DocumentTranslation:
    sides = (tokenizer(vocab_size), tokenizer(vocab_size))
    return DocumentTranslation(DocumentTranslationConfig(**options), languages=("en", "de"), tokenizers=sides)


def corpus(documents: list[list[str]]) -> ParallelCorpus:
    return ParallelCorpus.from_lines(documents, tokenizer())


def paired(task: Any, sources: list[list[str]], targets: list[list[str]]) -> ParallelCorpus:
    """Documents and their translations."""
    other = ParallelCorpus.from_lines(targets, task.target_tokenizer)
    return replace(ParallelCorpus.from_lines(sources, task.source_tokenizer), target=other.source)


def corpus_of_text(lines: TextLines, own: Tokenizer | None = None) -> ParallelCorpus:
    """One side in plain text, read as docnmt-preprocess reads it, in memory."""
    facts, builder, texts = Facts(), StructureBuilder(), list[str]()
    for document in read_text([lines], facts):
        builder.before += document.blank
        if document.rows:
            builder.add(unit_numbers(document.units))
            texts += [row[0] for row in document.rows]
    own = own or tokenizer()
    source = TokenArray.from_lists(own.encode(texts), own.vocab_size)
    structure = builder.build(known=facts.levels)
    return ParallelCorpus(**vars(structure), source=source, target=None, source_text=TextArray.from_lines(texts))


def config(arch: str, **options: Any) -> Any:
    """The configuration of a very small model."""
    values = {**ARCHITECTURES.get(arch).overrides(), "embed_dim": 32, "heads": 2, "ffn_dim": 48, **options}
    settings = MODELS.config(ARCHITECTURES.get(arch).model)
    if values.get("position", getattr(settings, "position", "")) in ("sinusoidal", "multi_level"):
        values = {"position_fusion": "concat", **values}  # with `add` random weights repeat one word for ever
    return settings(**values)


def model(arch: str = "transformer_tiny", seed: int = 0, of: DocumentTranslation | None = None, **options: Any) -> Any:
    """A model with random weights, large enough to make its choices differ."""
    torch.manual_seed(seed)
    built = (of or task()).build_model(MODELS.get(ARCHITECTURES.get(arch).model), config(arch, **options))
    with torch.no_grad():
        built.output.weight.mul_(4.0)
    return built.eval()


def save(
    path: Path, arch: str = "transformer_tiny", seed: int = 0, of: DocumentTranslation | None = None, **options: Any
) -> Path:
    """A checkpoint of such a model."""
    of = of or task()
    return write(path, model(arch, seed, of, **options), config(arch, **options), of, arch)


def write(path: Path, model: Any, config: Any, of: DocumentTranslation, arch: str = "transformer") -> Path:
    """A checkpoint of any model."""
    state = of.state()
    sections = {"task": to_dict(of.config), "model": to_dict(config)}
    header = {
        "arch": arch,
        "model": ARCHITECTURES.get(arch).model,
        "criterion": "cross_entropy",
        "task": "document_translation",
        "config": {**{name: {} for name in ("run", "training", "optimization", "criterion")}, **sections},
        "task_state": state.json,
        "progress": TrainingState().to_json(),
        "fingerprint": "",
        "threads": 1,
        "device": "cpu",
        "scores": {},
    }
    tensors = {f"model.{name}": tensor for name, tensor in unique_state(model).items()}
    save_checkpoint(path, header, tensors | state.tensors)
    return path


def random_checkpoint(
    path: Path, arch: str = "transformer", *, of: DocumentTranslation | None = None, separate: bool = False,
    **settings: Any,
) -> Path:  # fmt: skip
    """A checkpoint of a model with these settings, all of whose parameters are random, biases and gains, too.

    Args:
        of: its task. separate: if there is none, one with two vocabularies.
    """
    if of is None:
        sides = (tokenizer(45), tokenizer(40 if separate else 45))
        of = DocumentTranslation(DocumentTranslationConfig(), languages=("en", "de"), tokenizers=sides)
    sizes = {"encoder_layers": 2, "decoder_layers": 1, "embed_dim": 32, "heads": 4, "ffn_dim": 48}
    values = MODELS.config(arch)(**{**sizes, **settings})
    torch.manual_seed(0)
    built = of.build_model(MODELS.get(arch), values)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return write(path, built, values, of, arch)


def target_log_probs(
    loaded: LoadedModel, sources: list[str], targets: list[str]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Logits (L, V) and their log-probabilities for each target, `</s>` included, in one pass, in float64."""
    corpus = paired(loaded.task, [[text] for text in sources], [[text] for text in targets])
    model: Any = loaded.model
    units = planned_units(model.reading, corpus)
    batch = collate(corpus, units, np.arange(len(units)), model.reading)
    with torch.no_grad():
        logits = model.double().output(model(batch))  # (T, V)
    model.float()
    lengths = batch.target.layout.sentence_offsets.diff().tolist()
    return [(part, part.log_softmax(-1)) for part in logits.split(lengths)]
