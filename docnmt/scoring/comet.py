"""COMET (Rei et al. 2022), where its package is installed: a learned metric that reads the source too."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType

from docnmt.errors import UserError


def require_comet() -> ModuleType:
    """The package.

    Raises:
        UserError: it is not installed.
    """
    try:
        return importlib.import_module("comet")
    except ImportError as error:
        raise UserError("COMET is not installed; pip install 'docnmt[comet]', or leave --comet away") from error


def comet_score(model: str, sources: Sequence[str], hypotheses: Sequence[str], reference: Sequence[str]) -> float:
    """The system's COMET score, times 100, by sentence.

    Args:
        model: name at the model hub, or the path of a checkpoint.

    Raises:
        UserError: the package is not installed, or the model cannot be had.
    """
    comet = require_comet()
    try:
        path = model if model.endswith(".ckpt") else comet.download_model(model)
        scorer = comet.load_from_checkpoint(path)
    except (OSError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"COMET's model '{model}' cannot be loaded: {reason}; give the path of a .ckpt file") from error
    rows = [
        {"src": source, "mt": hypothesis, "ref": target}
        for source, hypothesis, target in zip(sources, hypotheses, reference, strict=True)
    ]
    return 100 * float(scorer.predict(rows, batch_size=16, gpus=0).system_score)
