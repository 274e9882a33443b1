"""`--shard`: parameters, gradients and the optimizer's moments divided among the ranks (PyTorch's FSDP2).

Each layer is gathered when a pass needs it and freed afterwards. Parameters outside all layers, such as the output
weights, are gathered around the whole loss: so a criterion can read them outside the model's `forward`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from docnmt.core.training.criterions import Criterion
from docnmt.modules.layers import Layer
from docnmt.runtime import ranks
from docnmt.runtime.errors import UsageError


def check_sharding() -> None:
    """Check that torch supports `--shard`.

    Raises:
      UsageError: this torch cannot add up gradients of parameters that only some ranks' batches use.
    """
    if not hasattr(FSDPModule, "set_reduce_scatter_unused_params"):
        raise UsageError(f"--shard needs a newer torch than {torch.__version__} (2.13 has what it takes)")


class ShardedLoss(nn.Module):
    """A criterion on a model, as one module, around which the parameters outside all layers are gathered."""

    def __init__(self, model: nn.Module, criterion: Criterion, device: torch.device) -> None:
        super().__init__()
        self.model, self.criterion = model, criterion
        mesh = init_device_mesh(device.type, (ranks.world(),))
        self.undivided = [parameter for parameter in model.parameters() if not parameter.dim()]
        for module in [*(module for module in model.modules() if isinstance(module, Layer)), self]:
            part = fully_shard(module, mesh=mesh, ignored_params=set(self.undivided))
            part.set_gradient_divide_factor(1.0)  # a sum: the loop divides by the tokens of all ranks
            part.set_force_sum_reduction_for_comms(True)
            part.set_reduce_scatter_unused_params(True)  # a batch may lack what another one has

    def forward(self, batch: object) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        """Return the criterion's values for a batch."""
        return self.criterion(self.model, batch)

    def sum_undivided(self) -> None:
        """Sum the gradients of scalar parameters over the ranks, which FSDP2 does not divide."""
        for parameter in self.undivided:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        ranks.sum_over_ranks([parameter.grad for parameter in self.undivided if parameter.grad is not None])

    def gradient_norm(self) -> Tensor:
        """Return the norm of the whole gradient, the same in every rank."""
        squares = torch.zeros(1, device=next(self.parameters()).device)
        for parameter in self.parameters():
            gradient = parameter.grad
            if gradient is not None and (isinstance(gradient, DTensor) or ranks.rank() == 0):
                squares += torch.linalg.vector_norm(own_part(gradient)).square()
        ranks.sum_over_ranks([squares])
        return squares.sqrt()[0]


def whole(tensor: Tensor) -> Tensor:
    """Gather a tensor of which each rank may have a part; all ranks must call this in the same order."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_tensors(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Gather tensors one by one to the CPU of the first rank; other ranks get empty ones."""
    for name, tensor in tensors.items():
        full = whole(tensor).detach()
        yield name, full.cpu() if ranks.rank() == 0 else torch.empty(0)


def part_of(tensor: Tensor, like: Tensor) -> Tensor:
    """Return this rank's part of a whole tensor, divided like `like`."""
    if not isinstance(like, DTensor) or isinstance(tensor, DTensor) or tensor.shape != like.shape:
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)


def own_part(tensor: Tensor) -> Tensor:
    """Return this rank's part of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
