"""Every option of every command is written down in options.txt, so that none comes, goes or changes by accident."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docnmt.apps.options import (
    AlignConfig,
    CompareConfig,
    ConvertConfig,
    GenerateConfig,
    MemoryConfig,
    ModelsConfig,
    PageConfig,
    ServeConfig,
    TranslateConfig,
)
from docnmt.cli import average, completion, embed, inspect, preprocess, score, senteval
from docnmt.cli.train import CHOSEN
from docnmt.core.scoring.config import ReportConfig
from docnmt.core.search.config import GenerationConfig
from docnmt.core.training.config import OptimizationConfig, RunConfig, TrainingConfig
from docnmt.options import NoOptions, Setting, flag, settings
from docnmt.other_tasks.classification.model import ClassifyConfig
from docnmt.registry import ALL, ARCHITECTURES, GENERATORS, Registry

FILE = Path(__file__).with_name("options.txt")


def chosen(kind: str, registry: Registry) -> dict[str, type]:
    """The options of every part of the package, not of plug-ins."""
    configs = {f"{kind} {name}": registry.config(name) for name in registry.names()}
    ours = {name: config for name, config in configs.items() if config.__module__.startswith("docnmt.")}
    return {name: config for name, config in ours.items() if config is not NoOptions}


GENERATION = {
    "models": ModelsConfig,
    "memory": MemoryConfig,
    "generation": GenerationConfig,
    **chosen("generator", GENERATORS),
}
COMMANDS: dict[str, dict[str, type]] = {
    "preprocess": {"task": preprocess.TaskConfig, **chosen("task", preprocess.PREPROCESSORS)},
    "train": {
        "run": RunConfig, "training": TrainingConfig, "optimization": OptimizationConfig,
        **{name: config for kind, registry in CHOSEN.items() for name, config in chosen(kind, registry).items()},
    },
    "generate": {"command": GenerateConfig, **GENERATION, "report": ReportConfig},
    "translate": {"command": TranslateConfig, **GENERATION},
    "score": {
        section.name: section.config
        for section in (*score.TRANSLATION, *score.CONTRASTIVE, *score.GENERATIVE, *score.SEARCH)
    },
    "report": {"report": PageConfig},
    "compare": {"compare": CompareConfig},
    "average": {"average": average.AverageConfig},
    "inspect": {"inspect": inspect.InspectConfig},
    "align": {"align": AlignConfig},
    "convert": {"convert": ConvertConfig},
    "classify": {"options": ClassifyConfig},
    "embed": {"embed": embed.EmbedConfig},
    "senteval": {"senteval": senteval.SentEvalConfig},
    "serve": {"command": ServeConfig, **GENERATION},
    "completion": {"completion": completion.CompletionConfig},
}  # fmt: skip


def described(setting: Setting) -> str:
    """An option's type, default and other spellings."""
    kind = setting.kind.__name__ if setting.choices is None else "|".join(map(str, setting.choices))
    if callable(setting.option.choices):
        kind = "name"  # of those at the end of the list
    shape = kind + (" ..." if setting.several else "") + (" or none" if setting.optional else "")
    default = "required" if setting.required else repr(setting.default)
    return "  ".join([setting.flag, *setting.option.aliases, shape, default])


def lines() -> Iterator[str]:
    for command, sections in COMMANDS.items():
        for section, config in sections.items():
            yield f"\ndocnmt-{command}, {section}"
            yield from (f"  {described(setting)}" for setting in settings(config))
    for registry in (*ALL, preprocess.PREPROCESSORS):
        targets = {name: entry.target for name, entry in registry._entries.items()}
        built_in = [name for name, target in targets.items() if isinstance(getattr(target, "make", target), str)]
        if built_in:
            yield f"\n{registry.kind}\n  {' '.join(built_in)}"
    yield "\narchitecture"
    for name in ARCHITECTURES.names():
        architecture = ARCHITECTURES.get(name)
        if f"arch {architecture.model}" in COMMANDS["train"]:
            values = " ".join(f"{flag(key)} {value}" for key, value in architecture.overrides().items())
            yield f"  {name}: {architecture.model} {values}".rstrip()


def test_options_are_those_of_the_file() -> None:
    written = FILE.read_text(encoding="utf-8").strip().splitlines()
    assert "\n".join(lines()).strip().splitlines() == written, (
        "an option appeared, vanished or changed. Is that wanted? Then raise CONFIG_VERSION if a checkpoint stores it, "
        "and update the list: python tests/compat/test_options.py"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_the_options_of_the_file(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And no others, so that the list above forgets none; --help shows some of them."""
    shown: dict[str, set[str]] = {}
    for which in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            importlib.import_module(f"docnmt.cli.{command}").main([which])
        shown[which] = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", capsys.readouterr().out, re.MULTILINE))
    common = {"--help", "--help-all", "--version", "--config", "--user-dir", "--debug", "--list", "--skip-checksums"}
    every = {setting.flag for config in COMMANDS[command].values() for setting in settings(config)}
    assert shown["--help"] <= shown["--help-all"] <= every | common
    assert len(shown["--help"] - common) <= 16


@pytest.mark.parametrize(("word", "hint"), [("--vars", ""), ("--lower", ""), ("--pair", "--paired")])
def test_a_hint_is_like_the_word_and_not_only_its_dashes(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert importlib.import_module("docnmt.cli.score").main(["--ref", "x", "--sys", "y", word]) == 2
    assert re.findall(r"did you mean (--\w+)", capsys.readouterr().err) == [hint][: bool(hint)]


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()).strip() + "\n", encoding="utf-8")
