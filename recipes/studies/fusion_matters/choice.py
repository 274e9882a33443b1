"""What a variant's own best setting is, by validation alone: initial deviation of the embeddings, learning rate, …"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from study import Study
from tables import markdown


@dataclass(frozen=True)
class Tried:
    """A setting: its mean accuracy and loss on the validation part over the choice seeds."""

    accuracy: float
    loss: float

    def merit(self, metric: str) -> tuple[float, float]:
        """Larger is better: by accuracy, between equals by loss; or the other way round. No loss is the worst."""
        gain = -math.inf if math.isnan(self.loss) else -self.loss
        return (gain, self.accuracy) if metric == "loss" else (self.accuracy, gain)

    def shown(self, metric: str) -> str:
        """The loss, or the accuracy in percent."""
        return f"{self.loss:.4f}" if metric == "loss" else f"{100 * self.accuracy:.2f}"


def tried(study: Study, runs: Path) -> dict[str, dict[str, Tried]]:
    """By variant and setting, in the study's order, those whose cells are all finished."""
    finished: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for cell in study.choice_cells():
        if (result := cell.result(runs)) is not None:
            finished.setdefault(cell.variant, {}).setdefault(cell.setting, []).append(result)
    return {
        variant: {
            setting: Tried(*(float(np.mean([r[key] for r in results])) for key in ("valid_accuracy", "valid_loss")))
            for setting, results in settings.items()
            if len(results) == len(study.choice_seeds)
        }
        for variant, settings in finished.items()
    }


def best(study: Study, settings: Mapping[str, Tried]) -> str:
    """The best setting by what the study's checkpoints are chosen by."""
    return max(settings, key=lambda setting: settings[setting].merit(study.metric))


def settled(study: Study, runs: Path) -> Study:
    """The study with the options chosen of every variant whose settings have all been tried."""
    known = tried(study, runs)
    complete = {
        v: best(study, known[v]) for v, settings in study.candidates.items() if len(known.get(v, {})) == len(settings)
    }
    return replace(
        study,
        variants={**study.variants, **{v: study.candidates[v][setting] for v, setting in complete.items()}},
        candidates={v: settings for v, settings in study.candidates.items() if v not in complete},
    )


def choice_table(study: Study, runs: Path) -> str:
    """The validation part's loss or accuracy, by which is chosen, of every setting, the chosen one in bold; empty where
    nothing was chosen."""
    known = tried(study, runs)
    names = list(dict.fromkeys(setting for settings in study.candidates.values() for setting in settings))
    rows = []
    for variant, settings in known.items():
        chosen = best(study, settings) if len(settings) == len(study.candidates[variant]) else None
        cells = {name: value.shown(study.metric) for name, value in settings.items()}
        rows.append([variant, *(f"**{cells[n]}**" if n == chosen else cells.get(n, "–") for n in names)])
    return markdown(["variant", *names], rows) if rows else ""
