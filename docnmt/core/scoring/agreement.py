"""The share of cases in which people agree that the better-scored of two systems is the better one.

Among pairs of systems whose scores differ by a given amount, this is the share that human judges order in the same
way, by a curve fitted for each metric (Kocmi et al. 2024, Navigating the Metrics Maze). Package `mt-thresholds`.
"""

from __future__ import annotations

import importlib.util

from docnmt.core.scoring.comet import Comet
from docnmt.core.scoring.evaluation import Summed

INSTALLED = importlib.util.find_spec("mt_thresholds") is not None
#: The package's names of metrics; those it does not have (TER, d-BLEU, COMET in windows) have no agreement.
_BLEU = {"flores101": "spbleu101", "flores200": "spbleu200"}  # by tokenizer
_COMET_MODELS = {
    "Unbabel/wmt20-comet-da": "comet20",
    "Unbabel/wmt22-comet-da": "comet22",
    "Unbabel/wmt22-cometkiwi-da": "cometkiwi22",
    "Unbabel/XCOMET-XL": "xcometxl",
    "Unbabel/XCOMET-XXL": "xcometxxl",
}


def human_agreement(name: str, metric: Summed, difference: float) -> float | None:
    """Return the share in percent, at least the 50 of chance; None for an unknown metric or without the package."""
    if isinstance(metric, Comet):
        known = _COMET_MODELS.get(metric.model) if metric.window == 1 else None
    else:
        bleu = _BLEU.get(getattr(metric, "tokenizer_signature", ""), "bleu")
        known = {"s-BLEU": bleu, "chrF": "chrf"}.get(name)
    if known is None or not INSTALLED:
        return None
    import mt_thresholds

    return max(50.0, float(mt_thresholds.accuracy(abs(difference), known)))
