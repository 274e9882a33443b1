"""A sentence model, as it is read from one form and written in another, and its form as a docnmt checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import yaml
from torch import Tensor
from typing_extensions import TypeIs

from docnmt.apps.convert import marian_weights as weights
from docnmt.core.data.directions import known_languages
from docnmt.core.data.preparation import Preparation
from docnmt.core.models.architectures import ConcatTransformer, Transformer
from docnmt.core.models.config import TransformerConfig
from docnmt.core.models.translation_model import is_translation_model
from docnmt.core.tasks.document_translation import DocumentTranslation
from docnmt.core.training.checkpoint import load_state, save_checkpoint, unique_state
from docnmt.core.training.load_model import load_model
from docnmt.core.training.progress_state import TrainingState
from docnmt.registry.options import to_dict
from docnmt.runtime.errors import UserError
from docnmt.runtime.files import BEST, find_checkpoint, write_text

#: The model's options as a `--config` file; the name is not config.yaml, because no training run has this folder.
OPTIONS = "model.yaml"
#: The SentencePiece models of source and target in a folder for another toolkit.
PIECES = ("source.spm", "target.spm")
#: The options that a model needs to start from this one; positions may have more levels, all others may differ.
_OF_WEIGHTS = (
    "encoder_layers",
    "decoder_layers",
    "embed_dim",
    "heads",
    "ffn_dim",
    "dropout",
    "activation",
    "norm",
    "share_embeddings",
    "tie_output",
    "output_bias",
    "scale_embeddings",
    "position_fusion",
    "sinusoids",
    "norm_embeddings",
)
#: More of them, of models with learned positions.
_OF_TABLES = ("position", "max_positions", "share_positions")


@dataclass(frozen=True, eq=False)
class SentenceModel:
    """A `transformer` with its weights, its options, and the task that has its languages and tokenizers.

    It can be a `concat_transformer` if it is only written: for other toolkits, this is a sentence model in which
    `<brk>` is a word.

    Attributes:
        path: the file or folder from which it was read, for messages.
    """

    path: Path
    model: Transformer | ConcatTransformer
    config: TransformerConfig
    task: DocumentTranslation

    @property
    def joined(self) -> bool:
        """True if its texts are several sentences with `<brk>` between them."""
        return isinstance(self.model, ConcatTransformer)

    def __str__(self) -> str:
        c, task = self.config, self.task
        sizes = dict.fromkeys((task.source_vocabulary_size, task.target_vocabulary_size))
        targets = known_languages((task.source_tokenizer, task.target_tokenizer), "target")
        several = f" ({len(targets)} target languages)" if targets else ""
        kind = "concat_transformer" if self.joined else "transformer"
        return (
            f"{kind} {'-'.join(task.languages)}{several}, {c.encoder_layers}+{c.decoder_layers} layers, width "
            f"{c.embed_dim}, {c.heads} heads, vocabulary {' and '.join(f'{size:,}' for size in sizes)}"
        )


def built(
    folder: Path, config: TransformerConfig, task: DocumentTranslation, tensors: Mapping[str, Tensor], *,
    rows: tuple[Sequence[int], Sequence[int]], shared: bool, tied: bool,
) -> SentenceModel:  # fmt: skip
    """Return a model with the weights of a folder of transformers; equal matrices are shared.

    Args:
        rows, shared, tied: as for `from_transformers`.

    Raises:
        UserError: the weights do not fit the configuration.
    """
    try:
        own = weights.from_transformers(config, tensors, rows=rows, shared=shared, tied=tied)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error
    config = replace(
        config,
        share_embeddings=weights.TARGET not in own,
        tie_output=weights.OUTPUT not in own,
        output_bias=weights.OUTPUT_BIAS in own,
    )
    model = Transformer.build(config, task).eval()
    load_state(model, own, folder)
    return SentenceModel(folder, model, config, task)


def write_pieces(sentence: SentenceModel, folder: Path) -> None:
    """Write the SentencePiece models as source.spm and target.spm, for toolkits that cut texts by themselves."""
    sides = (sentence.task.source_tokenizer, sentence.task.target_tokenizer)
    for name, tokenizer in zip(PIECES, sides, strict=True):
        (folder / name).write_bytes(tokenizer.prepared(Preparation()).to_bytes())


def read_checkpoint(path: Path, form: str) -> SentenceModel:
    """Read the model of a docnmt checkpoint or save-dir, to be written as `form`.

    Raises:
        UserError: it cannot be read, or the other form cannot express it: it is neither a `transformer` nor a
            `concat_transformer` that reads its windows as one sequence.
    """
    file = find_checkpoint(path)
    loaded = load_model(file)
    if _is_exported(loaded.model):
        assert isinstance(loaded.model_config, TransformerConfig)
        return SentenceModel(file, loaded.model, loaded.model_config, cast(DocumentTranslation, loaded.task))
    why, windows = "it translates no text", isinstance(loaded.model, ConcatTransformer)
    if is_translation_model(loaded.model):
        noun, windows = loaded.model.reading.noun, isinstance(cast(object, loaded.model), ConcatTransformer)
        why = (
            "its positions or its source without <brk> have no counterpart there"
            if windows
            else "its layers are unknown there"
            if noun == "sentence"
            else f"it reads a {noun}, and models there read a sentence"
        )
    raise UserError(
        f"{file}: a '{loaded.header['model']}' cannot be exported to {form}: {why}; export a 'transformer', such as "
        "the sentence model that a document model started from"
    )


def _is_exported(model: object) -> TypeIs[Transformer | ConcatTransformer]:
    """Return True if other toolkits have a counterpart of the model.

    A `concat_transformer` must read windows like sentences: as one sequence of positions, with `<brk>` on both sides.
    """
    if type(model) is ConcatTransformer:
        return model.reading.positions == "sequence" and model.reading.source_breaks
    return type(model) is Transformer


def write_checkpoint(sentence: SentenceModel, folder: Path) -> None:
    """Write a checkpoint, and its model's options as a `--config` file for models that start from it."""
    state = sentence.task.state()
    sections = {"task": to_dict(sentence.task.config), "model": to_dict(sentence.config)}
    header = {
        "arch": "transformer",
        "model": "transformer",
        "criterion": "label_smoothed_cross_entropy",
        "task": "document_translation",
        "config": {"run": {}, "training": {}, "optimization": {}, "criterion": {}, **sections},
        "task_state": state.json,
        "progress": TrainingState().to_json(),
        "fingerprint": "",
        "threads": 1,
        "device": "cpu",
        "scores": {},
    }
    tensors = {f"model.{name}": tensor for name, tensor in unique_state(sentence.model).items()}
    save_checkpoint(folder / BEST, header, tensors | state.tensors)
    names = (*_OF_WEIGHTS, *(_OF_TABLES if sentence.config.position == "learned" else ()))
    options = {name.replace("_", "-"): getattr(sentence.config, name) for name in names}
    head = (
        "# what a model needs that starts from this one: docnmt-train DATA --config FILE --finetune-from-model FOLDER\n"
    )
    write_text(folder / OPTIONS, head + yaml.safe_dump(options, sort_keys=False))
