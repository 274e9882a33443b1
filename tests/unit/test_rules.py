"""What options demand stands beside them: it is checked, said in errors and in the help, and names what exists."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from docnmt import registry
from docnmt.options import Needs, Open, contradictions, option, settings
from docnmt.registry import (
    ALL,
    Registry,
    import_plugins,
    register_architecture,
    register_criterion,
    register_model,
)
from docnmt.runtime.system import UsageError


@dataclass(frozen=True)
class Oven:
    """A configuration with every kind of rule."""

    heat: float = option(0.0, "of the oven", between=(0, Open(300)))
    racks: tuple[int, ...] = option((1,), "that are used", between=(1, 4))
    mode: Literal["air", "grill", "off"] = option("air", "how it heats")
    fan: bool = option(True, "turns", needs=Needs("mode", ("air",)))
    timer: int | None = option(None, "minutes", between=(1, None), excludes=("probe",))
    probe: str | None = option(None, "that ends it", needs="heat")
    light: bool = option(False, "on", needs=("timer", "probe"))
    speed: int = option(2, "of the fan", needs=[Needs("mode", without=("off",), typed=True), Needs("fan", typed=True)])


@dataclass(frozen=True)
class Stove(Oven):
    """A rule about an option that it inherits."""

    also_needs: ClassVar[dict[str, Needs]] = {"light": Needs("hot", says="a hot plate")}

    @property
    def hot(self) -> bool:
        """Whether it is."""
        return self.heat > 50


@dataclass(frozen=True)
class Range(Stove):
    """Another rule about it: what its base demands is demanded first."""

    also_needs: ClassVar[dict[str, Needs]] = {"light": Needs("wide", says="a wide door")}
    wide: bool = option(False, "door")


REFUSED = [
    (Oven(heat=-1), [], ["--heat"]),
    (Oven(heat=300.0), [], ["--heat"]),
    (Oven(heat=float("inf")), [], ["--heat"]),
    (Oven(racks=(1, 5)), [], ["--racks"]),
    (Oven(fan=False, mode="grill"), [], ["--no-fan", "--mode air"]),
    (Oven(timer=0), [], ["--timer"]),
    (Oven(timer=5, probe="a", heat=1), [], ["--timer", "--probe"]),
    (Oven(probe="a"), [], ["--probe", "--heat"]),
    (Oven(light=True), [], ["--light", "--timer or --probe"]),
    (Oven(mode="off"), ["speed"], ["--speed", "--mode other than off"]),
    (Oven(fan=False), ["speed"], ["--speed", "--fan"]),
    (Stove(light=True, timer=3, heat=50), [], ["--light", "a hot plate"]),
    (Range(light=True, timer=3), [], ["--light", "a hot plate"]),
    (Range(light=True, timer=3, heat=60), [], ["--light", "a wide door"]),
]


@pytest.mark.parametrize(("config", "typed", "named"), REFUSED, ids=[str(named) for _, _, named in REFUSED])
def test_what_does_not_go_is_named(config: Oven, typed: list[str], named: list[str]) -> None:
    (problem,) = contradictions(config, typed)
    assert all(name in problem for name in named)


@pytest.mark.parametrize(
    "config",
    [
        Oven(), Oven(heat=299.9, racks=(1, 4)), Oven(heat=1, probe="a", light=True), Oven(mode="off", speed=3),
        Stove(heat=51, timer=1, light=True),
    ],
)  # fmt: skip
def test_what_goes_is_not(config: Oven) -> None:
    assert contradictions(config) == []


CONFIGS = {registry.config(name) for registry in ALL for name in registry.names() if hasattr(registry, "config")}


@pytest.mark.parametrize("config", sorted(CONFIGS, key=lambda kind: kind.__qualname__), ids=lambda c: c.__qualname__)
def test_rules_name_what_exists_and_hold_at_their_ends(config: type) -> None:
    every = {setting.name: setting for setting in settings(config)}
    required = {name: "x" for name, setting in every.items() if setting.required}
    for name, setting in every.items():
        for needs in setting.option.needs:
            assert all(hasattr(config, other) or other in every for other in needs.names)
        assert set(setting.option.excludes) <= every.keys()
        for end, step in zip(setting.option.between or (), (-1, 1), strict=False):
            if end is not None:
                outside = end.end if isinstance(end, Open) else end + step
                values = {**required, name: (outside,) if setting.several else outside}
                problems = contradictions(dataclasses.replace(config(**required), **values))
                assert any(problem.startswith(f"{setting.flag}:") for problem in problems)


# A taken name is refused, whatever takes it.


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    for registered in registry.ALL:
        monkeypatch.setattr(registered, "_entries", dict(registered._entries))
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_other_objects_are_refused_with_both_places() -> None:
    names = Registry("thing")
    names.add("x", "module:object")
    names.add("x", names._entries["x"].target)
    with pytest.raises(ValueError, match="'x'"):
        names.register("x")(object())
    with pytest.raises(ValueError, match=r"first docnmt\.registry:.*now .*test_rules:"):
        register_architecture("transformer", "transformer_tiny")(lambda: {"embed_dim": 8})
    with pytest.raises(ValueError, match="'transformer_tiny'"):
        register_model("transformer_tiny")(type("Mine", (), {}))
    assert registry.MODELS.get("transformer") is not None
    assert "transformer_tiny" not in registry.MODELS
    with pytest.raises(ValueError, match="'cross_entropy'"):
        register_criterion("cross_entropy")(type("Mine", (), {}))


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
