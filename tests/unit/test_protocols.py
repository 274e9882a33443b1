"""`isinstance` of a protocol must say the same in every Python; since 3.12 it does not see what a module holds."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
import small_system
from typing_extensions import get_protocol_members

import docnmt
from docnmt.core.models.encoder_decoder import TranslationModel, is_translation_model, lacking

PACKAGE = Path(docnmt.__file__).parent


def runtime_protocols() -> list[type]:
    """The protocols of docnmt that `isinstance` may be asked for."""
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if "@runtime_checkable" in path.read_text(encoding="utf-8")]
    names = [".".join(["docnmt", *path.relative_to(PACKAGE).with_suffix("").parts]) for path in files]
    values = [(name, value) for name in names for value in vars(importlib.import_module(name)).values()]
    return [x for name, x in values if getattr(x, "_is_runtime_protocol", False) and x.__module__ == name]


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
    assert set(lacking(object())) | {"__call__"} == get_protocol_members(TranslationModel)
