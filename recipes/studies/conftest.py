"""The tests of the studies have the options, marks and fixtures of tests/conftest.py."""

import runpy
from pathlib import Path

_shared = runpy.run_path(str(Path(__file__).parents[2] / "tests" / "conftest.py"))
globals().update({name: value for name, value in _shared.items() if not name.startswith("__")})
