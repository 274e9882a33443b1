"""The commands. `docnmt.cli.NAME` is a module for each, also without a file: `python -m docnmt.cli.NAME`."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType


class _Commands(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds `docnmt.cli.NAME` in the table of commands, where no file has the name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package != __name__:
            return None
        from docnmt.cli.commands import COMMANDS

        return importlib.util.spec_from_loader(fullname, self) if name in COMMANDS else None

    def get_source(self, fullname: str) -> str:
        command = f"from docnmt.cli.commands import {fullname.rpartition('.')[2]} as main"
        return f"import sys\n{command}\nif __name__ == '__main__':\n    sys.exit(main())\n"


sys.meta_path.append(_Commands())
