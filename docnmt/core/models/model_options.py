"""The options of a model: its own, and those of the parts that it chooses by name. This file imports no torch."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any  # values of options, and classes that hold them

from docnmt.core.models.position_rules import fusion_of
from docnmt.registry.options import NoOptions, own_problems, settings
from docnmt.registry.registry import FUSIONS, MODELS, POSITIONS, Registry
from docnmt.runtime.errors import UsageError

#: The options by which a model chooses parts that bring options of their own.
PARTS: dict[str, Registry[Any]] = {"position": POSITIONS, "position_fusion": FUSIONS}


def chosen_parts(config: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chosen value of each option of `PARTS`, given or by default; "" for options that the model lacks."""
    chosen = {name: values.get(name, getattr(config, name, "")) for name in PARTS}
    if hasattr(config, "position_fusion"):
        chosen["position_fusion"] = fusion_of(chosen["position"], chosen["position_fusion"])
    return chosen


def model_config(model: str, values: Mapping[str, Any]) -> type:
    """Return the configuration class of a model, with the options of the position family and fusion that it chooses.

    Args:
        values: settings of the model by name; a missing `position` or `position_fusion` takes its default.

    Raises:
        ValueError: there is no such model.
    """
    config = MODELS.config(model)
    chosen = chosen_parts(config, values)
    parts = [registry.config(chosen[name]) for name, registry in PARTS.items() if chosen[name] in registry]
    return _extended(config, *(part for part in parts if part is not NoOptions))


@functools.cache
def _extended(config: type, *parts: type) -> type:
    """Return a configuration class that also has the options, rules and problems of others."""
    if not parts:
        return config
    names = [setting.name for part in (config, *parts) for setting in settings(part)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(
            f"{' and '.join(part.__qualname__ for part in parts)}: {config.__qualname__} has options of the same name: "
            f"{', '.join(twice)}; rename them"
        )

    def problems(self: object) -> list[str]:
        """Contradictions between the values, of every part."""
        return [found for part in (config, *parts) for found in own_problems(self, part)]

    namespace = {"problems": problems}
    return dataclasses.make_dataclass(config.__name__, [], bases=(config, *parts), namespace=namespace, frozen=True)
