"""One running service for all files that ask what it answers; those of other options start their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import small_system


@pytest.fixture(scope="session")
def document_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, untrained, of a model that reads its own translations."""
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    return small_system.save(path, "hier_cond_transformer_tiny", target_context="conditional")


@pytest.fixture(scope="session")
def running(document_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A `served.Served` of it, with a beam of 2, which writes no more than it reads and a little."""
    pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
    from commands import SHORT
    from served import serve

    log = tmp_path_factory.mktemp("service") / "log"
    with serve(log, "--path", str(document_model), "--beam", "2", "--batch-size", "16", *SHORT) as served:
        yield served
        assert "Traceback" not in log.read_text()
