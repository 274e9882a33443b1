"""The bench of opening a corpus writes folders that a corpus opens from."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest


def test_its_folders_open_with_and_without_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools" / "bench"))
    monkeypatch.delitem(sys.modules, "corpus", raising=False)
    bench = importlib.import_module("corpus")
    for sentences, documents, opened, *_ in bench.measure(100):
        assert (sentences, documents) == (100, 3)
        assert opened > 0
