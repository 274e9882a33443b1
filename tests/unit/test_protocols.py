"""`isinstance` of a protocol says the same in every Python: since 3.12 it does not see what a module holds."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest
import small_system
from typing_extensions import get_protocol_members

import docnmt
from docnmt.models.protocol import is_translation_model, lacking


def runtime_protocols() -> list[type]:
    """The protocols of docnmt that `isinstance` may be asked for."""
    found: dict[str, type] = {}
    for package in ("models", "tasks", "criterions", "sentence_vectors", "search", "modules"):
        names = pkgutil.walk_packages([f"{docnmt.__path__[0]}/{package}"], f"docnmt.{package}.")
        for name in names:
            for value in vars(importlib.import_module(name.name)).values():
                if inspect.isclass(value) and getattr(value, "_is_runtime_protocol", False):
                    found[f"{value.__module__}.{value.__qualname__}"] = value
    return [value for name, value in sorted(found.items()) if name.startswith("docnmt.")]


@pytest.mark.parametrize("protocol", runtime_protocols(), ids=lambda protocol: protocol.__name__)
@pytest.mark.parametrize("arch", ["transformer_tiny", "hier_cond_transformer_tiny", "copy_transformer_tiny"])
def test_what_a_protocol_finds_is_found_without_being_computed(arch: str, protocol: type) -> None:
    task = small_system.task()
    for thing in (small_system.model(arch, of=task), task):
        if all(hasattr(thing, member) for member in get_protocol_members(protocol)):
            for member in get_protocol_members(protocol):
                inspect.getattr_static(thing, member)


def test_a_translation_model_is_found_by_what_it_has() -> None:
    model = small_system.model()
    assert is_translation_model(model)
    with pytest.raises(AttributeError):
        inspect.getattr_static(model, "output")  # why `isinstance` would not do
    del model.output
    assert lacking(model) == ["output"]
    assert not is_translation_model(model)
