"""A taken name is refused, whatever takes it; the same code imported again is not another object."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from docnmt import registry
from docnmt import registry as builtin
from docnmt.cli.train import parse
from docnmt.options import Section, build, option
from docnmt.registry import (
    Architecture,
    Registry,
    import_plugins,
    register_architecture,
    register_criterion,
    register_model,
)
from docnmt.registry import imported as imported_plugins
from docnmt.runtime.system import UsageError

assert builtin


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in registry.ALL:
        monkeypatch.setattr(each, "_entries", dict(each._entries))
    monkeypatch.setattr(sys, "path", list(sys.path))


def imported(path: Path) -> ModuleType:
    """A file as a fresh module, under its name as Python's own import has it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_a_module_may_be_imported_again(tmp_path: Path) -> None:
    file = tmp_path / "again.py"
    file.write_text("from docnmt.registry import register_model\n@register_model('again')\nclass A:\n    pass\n")
    first, second = imported(file), imported(file)
    assert first.A is not second.A
    assert registry.MODELS.get("again") is second.A


def test_other_objects_are_refused_with_both_places() -> None:
    names = Registry("thing")
    names.add("x", "module:object")
    names.add("x", names._entries["x"].target)
    with pytest.raises(ValueError, match="'x'"):
        names.register("x")(object())
    with pytest.raises(ValueError, match=r"first docnmt\.registry:.*now .*test_registry:"):
        register_architecture("transformer", "transformer_tiny")(lambda: {"embed_dim": 8})
    with pytest.raises(ValueError, match="'transformer_tiny'"):
        register_model("transformer_tiny")(type("Mine", (), {}))
    assert registry.MODELS.get("transformer") is not None
    assert "transformer_tiny" not in registry.MODELS
    with pytest.raises(ValueError, match="'cross_entropy'"):
        register_criterion("cross_entropy")(type("Mine", (), {}))


def test_a_model_that_has_its_own_architecture_may_be_registered_again() -> None:
    model = type("Mine", (), {})
    register_model("mine")(register_model("mine")(model))
    assert registry.ARCHITECTURES.get("mine") == Architecture("mine", dict)


def test_plugins_of_any_name_are_imported(tmp_path: Path) -> None:
    """Two folders with files of one name, and a file named like a module of Python."""
    for folder, name in (("one", "plug"), ("two", "plug"), ("three", "json")):
        (tmp_path / folder).mkdir()
        text = f"from docnmt.registry import register_model\n@register_model('{folder}')\nclass A:\n    pass\n"
        (tmp_path / folder / f"{name}.py").write_text(text)
        import_plugins(str(tmp_path / folder))
        import_plugins(str(tmp_path / folder))
        assert folder in registry.MODELS


def test_a_package_may_import_its_own_parts_and_a_file_its_neighbours(tmp_path: Path) -> None:
    package = tmp_path / "parts_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("from . import inner\n")
    (package / "inner.py").write_text("import neighbour_of_mine\n")
    (tmp_path / "neighbour_of_mine.py").write_text("here = True\n")
    import_plugins(str(package))
    assert sys.modules["neighbour_of_mine"].here


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import sys\nsys.exit()\n", r"x\.py.*x\.py.*line 2"),
        ("def f():\n    {}['eps']\n\nf()\n", r"x\.py.*'eps'.*x\.py.*line 2"),
        ("import pytest\npytest.skip('no', allow_module_level=True)\n", r"x\.py.*x\.py.*line 2"),
        ("from docnmt.plugin import register_fusion\nclass C: ...\nregister_fusion('c', config=C)(print)\n", "'c'"),
    ],
)
def test_what_is_wrong_in_a_plugin_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(text)
    with pytest.raises(UsageError, match=message):
        import_plugins(str(tmp_path))
    with pytest.raises(UsageError):
        import_plugins(str(tmp_path / "x.py"))


def test_a_plugin_that_failed_may_be_mended_and_registers_again(tmp_path: Path) -> None:
    file = tmp_path / "half.py"
    text = "from docnmt.registry import register_criterion\n@register_criterion('half')\ndef half(): ...\n"
    file.write_text(f"{text}1 / 0\n")
    with pytest.raises(UsageError, match=r"half\.py, line 4"):
        import_plugins(str(tmp_path))
    file.write_text(f"\n{text}")
    import_plugins(str(tmp_path))
    assert "half" in registry.CRITERIA
    assert imported_plugins()["half.py"]


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("transfomer", {}, "--arch"),
        ("transformer", None, "--arch"),
        ("transformer", {"encoder_layers": "six"}, "--encoder-layers"),
    ],
)
def test_architectures_that_are_wrong_are_named(model: str, settings: object, message: str) -> None:
    register_architecture(model, "mine")(lambda: settings)
    with pytest.raises(UsageError) as caught:
        parse(["--task", "document_translation", "--save-dir", "x", "--arch", "mine"])
    assert message in str(caught.value)


@pytest.mark.parametrize("found", [None, "a sentence"])
def test_problems_are_a_list(found: object) -> None:
    @dataclass(frozen=True)
    class Config:
        size: int = option(1, "n")

        def problems(self) -> object:
            return found

    with pytest.raises(TypeError, match=r"Config\.problems"):
        build([Section("mine", Config)], {}, {})


def test_tests_beside_a_plugin_are_not_imported(tmp_path: Path) -> None:
    for name in ("test_mine.py", "mine_test.py", "conftest.py", "setup.py"):
        (tmp_path / name).write_text("1 / 0\n")
    with pytest.raises(UsageError):
        import_plugins(str(tmp_path))
    (tmp_path / "mine.py").write_text("")
    import_plugins(str(tmp_path))
