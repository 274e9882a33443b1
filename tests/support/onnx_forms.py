"""What docnmt-convert --to onnx makes of a checkpoint: files that onnxruntime runs, or the modules that are in them.

torch takes seconds to write a module as a file, so that tests of many models run the modules and few run files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from docnmt.apps.convert import convert as onnx_graphs
from docnmt.cli.convert import main as convert


@dataclass
class Module:
    """A graph in torch, to be asked as an `onnxruntime.InferenceSession` is."""

    graph: nn.Module
    inputs: Mapping[str, tuple[Tensor, Sequence[int]]]
    outputs: Sequence[str]

    def run(self, names: None, given: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """All outputs."""
        assert given.keys() == self.inputs.keys()
        with torch.no_grad():
            output = self.graph(**{name: torch.from_numpy(value) for name, value in given.items()})
        tensors = [output] if isinstance(output, Tensor) else [*output]
        assert len(tensors) == len(self.outputs)
        return [tensor.numpy() for tensor in tensors]


def in_files(checkpoint: Path, folder: Path) -> dict[str, Any]:
    """Convert; the sessions by name: "encoder", "step"."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    logging.disable(logging.DEBUG)  # of which the exporter writes much, and pytest would keep it
    assert convert([str(checkpoint), str(folder), "--to", "onnx"]) == 0
    logging.disable(logging.NOTSET)
    return {path.stem: onnxruntime.InferenceSession(str(path), options) for path in folder.glob("*.onnx")}


def in_torch(checkpoint: Path, folder: Path) -> dict[str, Any]:
    """Convert up to where torch would write the files; the modules by the files' names."""
    modules: dict[str, Any] = {}

    def keep(graph: nn.Module, path: Path, inputs: Any, outputs: Sequence[str]) -> None:
        modules[path.stem] = Module(graph.eval(), inputs, outputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_graphs, "export", keep)
        assert convert([str(checkpoint), str(folder), "--to", "onnx"]) == 0
    return modules


def systems(
    make: Callable[[dict[str, Any], Path, Callable[[Path, Path], dict[str, Any]]], object],
    shapes: Sequence[Any],
    form: Callable[[Path, Path], dict[str, Any]],
) -> Callable[..., object]:
    """A fixture of a module: for each shape of models, what `make` makes of it with graphs of that form."""

    @pytest.fixture(scope="module", params=shapes, ids=str)
    def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
        return make(request.param, tmp_path_factory.mktemp("system"), form)

    return system
