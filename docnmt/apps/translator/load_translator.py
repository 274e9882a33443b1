"""From the path or the name of trained models to a `Translator`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from docnmt.apps.commands.config import Precision
from docnmt.apps.commands.models import open_models
from docnmt.apps.translator.translator import Translator
from docnmt.registry.options.keywords import named_options
from docnmt.runtime.errors import UserError
from docnmt.runtime.hub import address_of
from docnmt.runtime.tuning import pick_device, tune


@named_options
def load(
    path: str | Path | Sequence[str | Path], *, device: str = "cpu", precision: Precision = "float32"
) -> Translator:
    """Load a checkpoint or a folder of checkpoints (its best), or several, whose probabilities are then averaged.

    A path that does not exist can be a model's name on the Hugging Face hub, `org/name` or `hf://org/name`.

    Sets how this process computes (`docnmt.runtime.tune`), as the commands do; `DOCNMT_TUNE=off` in the environment
    prevents it.

    Args:
        device: cpu, cuda, cuda:1 …; auto takes cuda if available.
        precision: float32; int8, on a CPU; fp16, on a GPU; or bf16 (`--int8` … of docnmt-translate).

    Raises:
        UserError: a checkpoint is missing or damaged, the models cannot translate together, or device or models do not
            support the precision.
    """
    expected = "load: expected a checkpoint, a folder of checkpoints or a list of such, got"
    if not isinstance(path, (str, Path, Sequence)):
        raise UserError(f"{expected} {type(path).__name__}")
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    if not paths:
        raise UserError(f"{expected} none")
    if wrong := [each for each in paths if not isinstance(each, (str, Path))]:
        raise UserError(f"{expected} one with {type(wrong[0]).__name__} in it")
    if precision not in get_args(Precision):
        raise UserError(f"load: precision: expected {', '.join(get_args(Precision))}, got {precision!r}")
    tune()
    return Translator(open_models([address_of(str(each)) for each in paths], pick_device(device), precision=precision))
