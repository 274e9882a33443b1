"""Typed configuration: a dataclass is the one source of its command-line options, help, YAML keys and checks.

A command has *sections*: (name, dataclass, the architecture's values). Values are taken in the order
default < architecture < `--config` file < typed option. Every problem found is reported at once.
A configuration class may have `problems(self) -> list[str]` for contradictions between its values, and `conditions`:
which of its options have an effect only with some values of another one.
"""

from docnmt.registry.options.condition import Condition, Except, collected, without_effect
from docnmt.registry.options.limits import above, below, no_share, same_file, same_path
from docnmt.registry.options.option import Choices, NoOptions, Option, option
from docnmt.registry.options.section import Section, aliases, build, contradictions
from docnmt.registry.options.setting import PLUGIN, Setting, convert, flag, nearest, settings, underscored
from docnmt.registry.options.stored import C, from_dict, read_yaml, to_dict

__all__ = [
    "PLUGIN",
    "C",
    "Choices",
    "Condition",
    "Except",
    "NoOptions",
    "Option",
    "Section",
    "Setting",
    "above",
    "aliases",
    "below",
    "build",
    "collected",
    "contradictions",
    "convert",
    "flag",
    "from_dict",
    "nearest",
    "no_share",
    "option",
    "read_yaml",
    "same_file",
    "same_path",
    "settings",
    "to_dict",
    "underscored",
    "without_effect",
]
