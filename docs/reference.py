"""The pages of the reference, written from the package itself: commands, options, API."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import pkgutil
import re
from pathlib import Path

import docnmt
from docnmt.options import Setting, settings

ROOT = Path(__file__).parent.parent

#: Modules and packages whose public names Python programs and plug-ins build on, with what they have. The service,
#: reports, explanations and conversions are commands.
API = {
    "docnmt.apps.commands.translator": "Trained models in Python",
    "docnmt.plugin": "What plug-ins build on",
    "docnmt.testing": "Checks for plug-ins' tests",
    "docnmt.core.units": "What a model reads at once",
    "docnmt.layout": "How a row is divided",
    "docnmt.core.batch": "Batches",
    "docnmt.core.corpus": "Corpora on disk",
    "docnmt.core.tokenizer": "Vocabularies",
    "docnmt.core.translation_task": "Translation as a task",
    "docnmt.functional": "Equations on tensors",
    "docnmt.modules": "Modules",
    "docnmt.core.models": "Architectures",
    "docnmt.apps.documents": "Documents of many kinds",
    "docnmt.core.search": "Search",
    "docnmt.core.scoring": "Scores",
    "docnmt.core.task": "Tasks",
    "docnmt.core.training": "Training",
    "docnmt.other_tasks.classification": "Text classification",
    "docnmt.other_tasks.sentence_vectors": "Sentence vectors",
    "docnmt.registry": "Registries",
    "docnmt.options": "Configurations",
    "docnmt.runtime.system": "Errors",
}


def write(folder: Path) -> None:
    """Write all pages of the reference into `folder`; what has not changed is left alone."""
    pages = {"commands": commands(), "options": options(), "api": api()}
    pages |= {module: api_page(module, title) for module, title in API.items()}
    pages |= {name.lower(): outside(ROOT / f"{name}.md") for name in ("CONTRIBUTING", "CHANGELOG")}
    folder.mkdir(exist_ok=True)
    for old in set(folder.glob("*.md")) - {folder / f"{name}.md" for name in pages}:
        old.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def modules(name: str) -> list[str]:
    """A module, or a package and everything in it."""
    module = importlib.import_module(name)
    if not hasattr(module, "__path__"):
        return [name]
    return [name, *(part.name for part in pkgutil.walk_packages(module.__path__, name + "."))]


def outside(page: Path) -> str:
    """A page from above `docs/`, its links into `docs/` kept and the others named."""
    text = page.read_text(encoding="utf-8").replace("](docs/", "](../../")
    return re.sub(
        r"\[([^\]]+)\]\(((?!\.\./|https?:|#)[^)]+)\)",
        lambda link: f"[{link[1]}]({link[2].lower()})" if "/" not in link[2] and link[2] != "LICENSE" else link[1],
        text,
    )


def commands() -> str:
    """What every command says to `--help`."""
    scripts = re.search(r"\[project\.scripts\]\n(.*?)\n\n", (ROOT / "pyproject.toml").read_text(), re.DOTALL)
    parts = ["# Commands\n\nWhat every command says to `--help`.\n"]
    for name, entry in re.findall(r'(\S+) = "(.+)"', scripts[1] if scripts else ""):
        module, _, function = entry.partition(":")
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            getattr(importlib.import_module(module), function)(["--help"])
        parts.append(f"## {name}\n\n```text\n{said.getvalue().rstrip()}\n```\n")
    return "\n".join(parts)


def options() -> str:
    """Every configuration class and its options, in the order of the packages."""
    classes: dict[type, str] = {}
    for name in modules("docnmt"):
        for _, config in inspect.getmembers(importlib.import_module(name), dataclasses.is_dataclass):
            if any("option" in field.metadata for field in dataclasses.fields(config)):
                classes.setdefault(config, config.__module__)
    parts = [
        "# Options\n",
        "Every class is a part of some command's options and, with the same names, of `--config FILE.yaml`. A class",
        "that extends another has its options, too; its table has its own, and those with another default.\n",
    ]
    for config in sorted(classes, key=lambda c: (classes[c], c.__mro__[::-1][1:2] == [c], c.__qualname__)):
        parts.append(options_of(config))
    return "\n".join(parts)


def options_of(config: type) -> str:
    """One configuration class as a section."""
    known = {f.name: f.default for b in config.__bases__ if dataclasses.is_dataclass(b) for f in dataclasses.fields(b)}
    own = [s for s in settings(config) if s.name not in known or known[s.name] != s.default]
    summary = " ".join((inspect.getdoc(config) or "").split("\n\n")[0].split())
    lines = [f"## {config.__name__}\n", f"`{config.__module__}`. {cell(summary)}\n"]
    if known:
        above = ", ".join(f"`{b.__name__}`" for b in config.__bases__ if dataclasses.is_dataclass(b))
        lines.append(f"Extends {above}.\n")
    if own:
        lines += ["| option | default | | demands |", "| --- | --- | --- | --- |", *map(row, own), ""]
    return "\n".join(lines)


def row(setting: Setting) -> str:
    """One option as a line of a table."""
    default = "required" if setting.required else shown(setting.default)
    says = cell(setting.option.help)
    if setting.choices:
        says += (": " if says else "") + ", ".join(f"`{choice}`" for choice in setting.choices)
    return f"| `{setting.flag}` | {default} | {says} | {cell('; '.join(setting.option.rules()))} |"


def shown(value: object) -> str:
    """A default as it is typed."""
    if value in (None, (), ""):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"`{' '.join(map(str, value)) if isinstance(value, tuple) else value}`"


def cell(text: str) -> str:
    """Text that stays as it is in a table."""
    for mark in "\\|*_<>[]":
        text = text.replace(mark, "\\" + mark)
    return text


def api() -> str:
    """The list of API pages."""
    pages = "\n".join(f"{title} ({module}) <{module}>" for module, title in API.items())
    return f"# API\n\nFrom the docstrings.\n\n```{{toctree}}\n:maxdepth: 1\n\n{pages}\n```\n"


def api_page(name: str, title: str) -> str:
    """The docstrings of a module, or of a package module by module."""
    parts = [f"# {title}: {name}\n"]
    for module in modules(name):
        package = importlib.import_module(module)
        public = sorted(name for name in vars(package) if name[0] != "_") if module == "docnmt.plugin" else ()
        own = "" if public or hasattr(package, "__path__") else "   :members:\n   :show-inheritance:\n"
        if module != name:
            parts.append(f"## {module.removeprefix(name + '.')}\n")
        parts.append(f"```{{eval-rst}}\n.. automodule:: {module}\n{own}```\n")
        if public:
            parts.append("To import from here: " + ", ".join(f"`{member}`" for member in public) + ".\n")
    return "\n".join(parts)


assert docnmt.__version__  # importing docnmt fills the registries, from which some choices come
