"""Typed configuration: a dataclass is the one source of its command-line options, help, YAML keys and checks.

A command has *sections*: (name, dataclass, the architecture's values). Values are taken in the order
default < architecture < `--config` file < typed option. Every problem found is reported at once.
What an option demands of its value and of others stands beside it (`between`, `needs`, `excludes`); errors, `--help`
and the reference say it. A configuration class may have `problems(self) -> list[str]` for what is about several values.
"""

from docnmt.registry.options.check import contradictions, own_problems, same_file, same_path
from docnmt.registry.options.option import Choices, NoOptions, Option, option
from docnmt.registry.options.rules import SET, Except, Needs, Open, collected, flag
from docnmt.registry.options.section import Section, aliases, build
from docnmt.registry.options.setting import PLUGIN, Setting, convert, nearest, settings, underscored
from docnmt.registry.options.stored import C, from_dict, read_yaml, to_dict

__all__ = [
    "PLUGIN",
    "SET",
    "C",
    "Choices",
    "Except",
    "Needs",
    "NoOptions",
    "Open",
    "Option",
    "Section",
    "Setting",
    "aliases",
    "build",
    "collected",
    "contradictions",
    "convert",
    "flag",
    "from_dict",
    "nearest",
    "option",
    "own_problems",
    "read_yaml",
    "same_file",
    "same_path",
    "settings",
    "to_dict",
    "underscored",
]
