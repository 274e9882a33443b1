"""The scorer of `docnmt-score --contrastive`, by the models of `--path`."""

from __future__ import annotations

from collections.abc import Callable

from docnmt.apps.commands.config import ModelsConfig
from docnmt.apps.commands.models import load_models
from docnmt.core.scoring.contrastive import ForcedExample
from docnmt.core.search.forced import forced_scores
from docnmt.runtime.progress import Progress


def scorer(config: ModelsConfig) -> Callable[[list[ForcedExample]], list[float]]:
    """Return a function that sums log-probabilities under the models of `--path`.

    Raises:
        UserError: a model cannot be loaded.
    """
    loaded = load_models(config)

    def score(examples: list[ForcedExample]) -> list[float]:
        """Score examples with a progress bar."""
        with Progress(len(examples), "scoring", unit="translations") as bar:
            window = config.context_window
            return forced_scores(loaded.models, loaded.task, examples, context_window=window, progress=bar.update)

    return score
