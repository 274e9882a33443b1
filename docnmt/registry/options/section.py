"""The sections of a command's configuration, resolved: default < architecture < `--config` file < typed option."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docnmt.registry.options.check import contradictions
from docnmt.registry.options.setting import Setting, settings, underscored
from docnmt.runtime.errors import UsageError


@dataclass(frozen=True)
class Section:
    """A part of a command's configuration: `values` are the architecture's, between the defaults and the file's.

    Attributes:
        use: what its required options are required for, where that is not all that the command does.
    """

    name: str
    config: type
    values: Mapping[str, Any] = field(default_factory=dict)
    use: str = ""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings of its class."""
        return settings(self.config)


def aliases(sections: Sequence[Section]) -> dict[str, str]:
    """Return a dictionary of other spellings to names, of every option that has any."""
    every = (setting for section in sections for setting in section.settings)
    return {underscored(alias): setting.name for setting in every for alias in setting.option.aliases}


def build(
    sections: Sequence[Section], file: Mapping[str, Any], typed: Mapping[str, Any], explain: Callable[[str], str]
) -> dict[str, Any]:
    """Resolve every section: default < architecture < file < typed.

    Args:
        file: the `--config` file's content, flat; unknown keys are problems.
        typed: command-line strings by field name.
        explain: returns a hint on an unknown name (did-you-mean, or which architecture has it).

    Raises:
        UsageError: with every problem found.
    """
    problems: list[str] = []
    known, other = {s.name for section in sections for s in section.settings}, aliases(sections)
    spelt: dict[str, str] = {}  # the option → how the file spells it
    for key in file:
        name = other.get(underscored(key), underscored(key))
        if name not in known:
            problems.append(f"--config: unknown key '{key}'{explain(key)}")
        elif name in spelt:
            problems.append(f"--config: '{spelt[name]}' and '{key}' are one option; keep one of them")
        spelt[name] = key
    of_file = {name: file[key] for name, key in spelt.items()}
    values = {}
    for section in sections:
        sources = {"{}": typed, "--config: {}": of_file, "{} (set by the architecture)": section.values}
        values[section.name] = _values(section.settings, sources, problems)
    if not problems:
        resolved = {section.name: section.config(**values[section.name]) for section in sections}
        problems += [problem for config in resolved.values() for problem in contradictions(config, typed)]
    if problems:
        raise UsageError(problems)
    return resolved


def _values(wanted: Sequence[Setting], sources: Mapping[str, Mapping[str, Any]], problems: list[str]) -> dict[str, Any]:
    """Return each setting's value from the first source that has one; errors are added to `problems`.

    Args:
        sources: by the message format of their errors.
    """
    values: dict[str, Any] = {}
    for setting in wanted:
        form = next((form for form, source in sources.items() if setting.name in source), None)
        if form is not None:
            try:
                values[setting.name] = setting.convert(sources[form][setting.name])
            except ValueError as error:
                problems.append(form.format(error))
        elif setting.required:
            problems.append(f"{setting.flag} is required: {setting.option.help}")
    return values
