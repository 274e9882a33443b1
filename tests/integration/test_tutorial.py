"""The tutorial notebook runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel: pip install 'docnmt[test]'")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel: pip install 'docnmt[test]'")
pytest.importorskip("ipykernel", reason="needs ipykernel: pip install 'docnmt[test]'")
TUTORIAL = Path(__file__).parents[2] / "docs" / "guide" / "tutorial.ipynb"


def test_the_tutorial_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(TUTORIAL, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # what they were on somebody's machine
    (training,) = (cell for cell in notebook.cells if "max_update=60" in cell.source)
    training.source = training.source.replace("max_update=60", "max_update=20")  # what it learns is not looked at
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("layer 1, head 0:" in output.get("text", "") for output in shown)
