"""Starting a document model from a sentence model: its additional parts, which begin without an effect."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from torch import nn

from docnmt.core.models.config import ContextOptions, LevelOptions, TransformerConfig
from docnmt.modules.fusion import Concat
from docnmt.modules.layers import Layer
from docnmt.modules.sublayer import DocumentPart
from docnmt.registry.options import collected, flag, settings


def own_parameters(model: nn.Module) -> set[str]:
    """Return the names of the parameters that a sentence model lacks."""
    parts: list[nn.Module] = [module for module in model.modules() if isinstance(module, DocumentPart)]
    parts += [norm for layer in model.modules() if isinstance(layer, Layer) for norm in layer.document_residuals]
    own = {id(parameter) for part in parts for parameter in part.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in own}


def new_parameters(model: nn.Module) -> set[str]:
    """Return the names of parameters that may be missing in a sentence model that this one starts from: its own, and
    those of concatenation, which can begin as addition."""
    modules = model.named_modules()
    fusions = {f"{name}.{own}" for name, each in modules if isinstance(each, Concat) for own in each.state_dict()}
    return own_parameters(model) | fusions


def start_as_sentence_model(model: nn.Module, given: Collection[str]) -> None:
    """Make the document parts add nothing: context attention returns 0, words know only their place in the sentence.
    Their gradients are not 0, so both are learned from here on.

    Concatenation that the sentence model lacks begins as addition.

    Args:
        given: the parameters that the sentence model had; parts that have some of them are not changed.
    """
    for name, module in model.named_modules():
        if any(parameter.startswith(f"{name}.") for parameter in given):
            continue
        if isinstance(module, DocumentPart):
            module.start_closed()
        elif isinstance(module, Concat):
            module.start_as_addition()


def settings_that_differ(old: object, new: object) -> list[str]:
    """Return the settings of `old`, described, under which its weights would mean something else in `new`.

    Configurations name in `free` the options that do not change the meaning of weights; dropout never does.
    """
    free = collected(type(old), "free")
    every = [setting.name for setting in settings(type(old))]
    names = [name for name in every if name not in free and not name.endswith("dropout")]
    # `new` may lack an option that a position family of `old` has of its own
    pairs = {name: (getattr(old, name), getattr(new, name, None)) for name in names}
    return [f"{flag(name)} is {there} there and {here} here" for name, (there, here) in pairs.items() if there != here]


def start_problems(sentence: TransformerConfig, document: TransformerConfig) -> list[str]:
    """Return the reasons why a document model of this configuration cannot start from a sentence model."""
    wanted = replace(sentence, relative_horizon=document.relative_horizon)
    levels = document if isinstance(document, LevelOptions) and document.position == "multi_level" else None
    if sentence.position == "sinusoidal" and levels is not None and not levels.learned_words:
        wanted = replace(wanted, position="multi_level")  # its levels above the word can begin with 0
    if (sentence.position_fusion, document.position_fusion) == ("add", "concat"):
        wanted = replace(wanted, position_fusion="concat")
    found = settings_that_differ(wanted, document)
    if sentence.horizon != document.horizon:
        found.append(f"--relative-horizon is {sentence.horizon} there and {document.horizon} here")
    context = document if isinstance(document, ContextOptions) else None
    if context is not None and context.context_placement == "replace":
        found.append(
            "--context-placement replace takes heads away that the sentence model has; give --context-placement block "
            "or heads"
        )
    blocks = context is not None and (context.context_placement == "block" or context.target_context != "none")
    if context is not None and blocks and context.norm == context.context_norm == "post":
        found.append("--norm post: a context block's layer norm changes what it is given; give --context-norm pre")
    count = document.position_count if isinstance(document, LevelOptions) else "unit"
    if count != "unit" and (context is not None or document.position == "multi_level"):
        found.append(f"--position-count {count}: the sentence model's words count from their sentence's start")
    return found
