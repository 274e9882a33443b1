"""docnmt: document-level machine translation. Whole documents in, whole documents out."""

from importlib import import_module
from typing import TYPE_CHECKING

import docnmt.registry  # noqa: F401 (every registry is filled, for commands and library users alike)
from docnmt.runtime.system import __version__ as __version__

if TYPE_CHECKING:
    from docnmt.apps.commands.translator import Translator as Translator
    from docnmt.apps.commands.translator import load as load
    from docnmt.cli.library import generate as generate
    from docnmt.cli.library import preprocess as preprocess
    from docnmt.cli.library import score as score
    from docnmt.cli.library import train as train
    from docnmt.core.corpus import Document as Document
    from docnmt.core.search.translate import Translation as Translation
    from docnmt.registry import import_plugins as import_plugins
    from docnmt.runtime.system import UserError as UserError

#: What needs torch, or much else, is imported when it is first used.
_HOMES = {
    "Document": "core.corpus",
    "Translation": "core.search.translate",
    "Translator": "apps.commands.translator",
    "UserError": "runtime.system",
    "generate": "cli.library",
    "import_plugins": "registry",
    "load": "apps.commands.translator",
    "preprocess": "cli.library",
    "score": "cli.library",
    "train": "cli.library",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'docnmt' has no attribute '{name}'; it has {', '.join(_HOMES)}")
    globals()[name] = getattr(import_module(f"docnmt.{_HOMES[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
