"""The options of the criteria. This file imports no torch: the command line reads it, too."""

from __future__ import annotations

from dataclasses import dataclass

from docnmt.registry.options import Open, option


@dataclass(frozen=True)
class CrossEntropyConfig:
    """Options of cross-entropy; there are none."""


@dataclass(frozen=True)
class LabelSmoothedCrossEntropyConfig:
    """Options of label-smoothed cross-entropy."""

    label_smoothing: float = option(
        0.1, "share of the probability given to all labels alike", basic=True, between=(0, Open(1))
    )
    r_drop: float = option(
        0.0,
        "R-Drop: two passes an update, and this weight on how differently they predict (5 in its paper); of "
        "copy_transformer without what is copied",
        metavar="ALPHA",
        between=(0, None),
    )


@dataclass(frozen=True)
class FormChoiceConfig(LabelSmoothedCrossEntropyConfig):
    """Options of the criterion of forms of address."""

    form_choice: float = option(
        4.0, "how many times the choice between the forms of address counts in training", between=(0, None)
    )
