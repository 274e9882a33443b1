"""Greedy search: the best token at every step, which is beam search with a beam of one."""

from __future__ import annotations

from dataclasses import asdict
from typing import ClassVar

import torch

from docnmt.search.beam_search import BeamSearch
from docnmt.search.config import BeamSearchConfig, GreedyConfig


class Greedy(BeamSearch):
    """Follow the most probable token until it is `</s>`."""

    Config: ClassVar[type] = GreedyConfig

    def __init__(self, config: GreedyConfig, device: torch.device | str = "cpu") -> None:
        super().__init__(BeamSearchConfig(**asdict(config), beam=1, nbest=1), device)
