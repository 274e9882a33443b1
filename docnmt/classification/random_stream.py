"""Random numbers that do not depend on what else was drawn: one stream a name."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator

import numpy as np
import torch


@contextlib.contextmanager
def random_stream(name: str) -> Iterator[None]:
    """Inside, torch (on the CPU) draws from a stream that the current seed and `name` alone determine.

    So a component's initial weights are the same whatever stands beside it, and models that differ in one component can
    be compared pair by pair. The surrounding stream goes on as if nothing had been drawn.
    """
    seeds = np.random.SeedSequence([torch.initial_seed(), zlib.crc32(name.encode())])
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(seeds.generate_state(1, np.uint64)[0]))
        yield
