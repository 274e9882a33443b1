"""The size of a model, docnmt's updates of training, and the bare matrix products that no toolkit can do without."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from peers import Ways
from torch import Tensor

from docnmt.cli.train import parse
from docnmt.core.training.run import Run
from docnmt.core.training.start import prepare
from docnmt.core.training.trainer import Epoch, open_epoch, set_learning_rate
from docnmt.core.training.update import change_weights, gradient
from docnmt.runtime.device import products_by, tune

FULL, HALF = "float32", "bf16"
SMOOTHING, DROPOUT = 0.1, 0.1


@dataclass(frozen=True)
class Size:
    """Of a model; feed-forward blocks are four times as wide, heads 64."""

    vocabulary: int
    width: int
    layers: int

    @property
    def heads(self) -> int:
        return max(self.width // 64, 1)

    @property
    def options(self) -> list[str]:
        """docnmt-train's."""
        sizes = {
            "embed-dim": self.width, "heads": self.heads, "ffn-dim": 4 * self.width, "dropout": DROPOUT,
            "encoder-layers": self.layers, "decoder-layers": self.layers, "label-smoothing": SMOOTHING,
            "position-fusion": "add",  # as the other programs do
        }  # fmt: skip
        return [f"--{name}={value}" for name, value in sizes.items()]

    def products(self, source: int, target: int) -> Iterator[tuple[int, int, int]]:
        """Rows, columns in and columns out of each linear layer, for so many subwords.

        Left out: attention's products of queries, keys and values, 1 % at sentences of 25 subwords and width 512.
        """
        wide = 4 * self.width
        own = [3 * self.width, self.width]  # attention's projections
        for _ in range(self.layers):
            for rows, outs in ((source, own), (target, own), (target, [self.width] * 2), (source, [2 * self.width])):
                yield from ((rows, self.width, out) for out in outs)
            for rows in (source, target):
                yield from ((rows, self.width, wide), (rows, wide, self.width))
        yield target, self.width, self.vocabulary


def opened_run(data: str, arch: str, size: Size, subwords: int, *more: str) -> tuple[Run, Epoch]:
    """As docnmt-train begins; nothing is written."""
    with tempfile.TemporaryDirectory() as folder:
        words = [data, "--arch", arch, "--max-tokens", str(subwords), *size.options, *more]
        run = prepare(parse([*words, "--device", "cpu", "--disable-validation", "--save-dir", f"{folder}/run"]))
    run.model.train()
    return run, open_epoch(run)


def docnmt(data: str, arch: str, size: Size, subwords: int) -> Ways:
    """The updates of docnmt-train, each of the next batch of its plan; they give the batch's target subwords."""
    tune(new_shapes=True)

    def update(run: Run, epoch: Epoch, number: int) -> float:
        batches = [epoch.plan[number % len(epoch.plan)]]
        set_learning_rate(run)
        summed = gradient(run, epoch.data, batches, "")
        change_weights(run, summed.sums["size"], summed.norm)
        run.state.update += 1
        return summed.sums["size"]

    def way(*more: str) -> Callable[[int], float]:
        run, epoch = opened_run(data, arch, size, subwords, *more)
        return lambda number: update(run, epoch, number)

    def products(kind: torch.dtype, precision: str) -> Callable[[int, int], None]:
        def multiply(source: int, target: int) -> None:
            with products_by(precision):
                bare_products(size, source, target, kind)

        return multiply

    return {
        FULL: way(), HALF: way("--bf16"), f"products {FULL}": products(torch.float32, "highest"),
        f"products {FULL}, oneDNN": products(torch.float32, "medium"),
        f"products {HALF}": products(torch.bfloat16, "highest"),
    }  # fmt: skip


def bare_products(size: Size, source: int, target: int, kind: torch.dtype) -> None:
    """Of each linear layer the output and the gradients of input and weight. Matrices of one shape are made once."""
    made: dict[tuple[int, int], Tensor] = {}

    def matrix(*shape: int) -> Tensor:
        if shape not in made:
            made[shape] = torch.ones(shape, dtype=kind)
        return made[shape]

    for rows, columns_in, columns_out in size.products(source, target):
        x, weight, gradient_out = matrix(rows, columns_in), matrix(columns_out, columns_in), matrix(rows, columns_out)
        _ = x @ weight.t(), gradient_out @ weight, gradient_out.t() @ x
