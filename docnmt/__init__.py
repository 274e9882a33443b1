"""docnmt: document-level machine translation. Whole documents in, whole documents out."""

from importlib import import_module
from typing import TYPE_CHECKING

import docnmt.builtin  # noqa: F401 (every registry is filled, for commands and library users alike)
from docnmt.version import __version__

if TYPE_CHECKING:
    from docnmt.cli.train import train as train
    from docnmt.formats.document import Document as Document
    from docnmt.search.translate import Translation as Translation
    from docnmt.translator import Translator as Translator
    from docnmt.translator import load as load
    from docnmt.user_dir import import_plugins as import_plugins

#: What needs torch, or much else, is imported when it is first used.
_HOMES = {
    "Document": "formats.document",
    "Translation": "search.translate",
    "Translator": "translator",
    "import_plugins": "user_dir",
    "load": "translator",
    "train": "cli.train",
}
__all__ = ["Document", "Translation", "Translator", "__version__", "import_plugins", "load", "train"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'docnmt' has no attribute '{name}'; it has {', '.join(__all__)}")
    found: object = getattr(import_module(f"docnmt.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
