"""CUDA graphs: calls that are recorded once and launched together, again and again, over the same memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

import torch
from torch import Tensor

from docnmt.runtime.errors import UserError


class Uncapturable(RuntimeError):
    """Something that a CUDA graph cannot contain, as a decision of the host by numbers that change; it says what."""


class Recorder(Protocol):
    """Runs a function on a device, or records what it launches there."""

    def run(self, body: Callable[[], None]) -> None:
        """Call the function; what `record` needs to exist before it (libraries, compiled kernels) then exists."""

    def record(self, body: Callable[[], None]) -> Callable[[], None]:
        """Call the function without computing anything; return what computes it, over the same memory."""


class CudaRecorder:
    """Records CUDA graphs, which share the memory of what they compute on the way: only one may run at a time."""

    def __init__(self, device: torch.device) -> None:
        self.stream, self.pool = torch.cuda.Stream(device), torch.cuda.graph_pool_handle()
        # PyTorch records nothing into a pool that all graphs have left while something in it is still alive: this stays
        self._anchor = torch.cuda.CUDAGraph()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an empty graph
            with torch.cuda.graph(self._anchor, pool=self.pool, stream=self.stream):
                pass

    def run(self, body: Callable[[], None]) -> None:
        """Call the function on the stream that records, as PyTorch asks for."""
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            body()
        current.wait_stream(self.stream)

    def record(self, body: Callable[[], None]) -> Callable[[], None]:
        """Return the graph's replay."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                body()
        except BaseException:
            with suppress(RuntimeError):  # PyTorch's generator would wait for the end of the recording for ever
                generator = torch.cuda.default_generators[self.stream.device.index]
                generator.graphsafe_set_state(generator.clone_state())
            raise
        return graph.replay


def power_of_two(number: int, least: int = 1) -> int:
    """The smallest power of two that is no less, and at least `least`: with few sizes, few shapes are recorded."""
    return max(least, 1 << max(0, number - 1).bit_length())


class Repeated:
    """A function that is called again and again over the same memory: the first time as it is, then as a graph.

    Args:
        body: launches the same at each call; what differs stands in memory.
    """

    def __init__(self, recorder: Recorder, body: Callable[[], None]) -> None:
        self._recorder, self._body, self._called = recorder, body, False
        self._replay: Callable[[], None] | None = None

    def __call__(self) -> None:
        """Compute it.

        Raises:
            Uncapturable: it cannot be recorded; nothing was computed.
        """
        if not self._called:
            self._recorder.run(self._body)
            self._called = True
            return
        if self._replay is None:
            try:
                self._replay = self._recorder.record(self._body)
            except Uncapturable:
                raise
            except RuntimeError as error:
                raise Uncapturable(f"recording failed: {str(error).splitlines()[0]}") from error
        self._replay()


#: Random numbers below 2^31 that wait on the device, for what is captured.
_seeds: Iterator[Tensor] | None = None


def next_seed() -> int | Tensor:
    """A number below 2^31 from the host's generator; inside `seeds_from` the next of those, a tensor ()."""
    return int(torch.randint(1 << 31, ())) if _seeds is None else next(_seeds)


def happens(probability: float) -> bool | Tensor:
    """Whether something happens, from the host's generator; inside `seeds_from` from the next of those: () bool."""
    return torch.rand(()).item() < probability if _seeds is None else next(_seeds) < probability * (1 << 31)


@contextmanager
def seeds_from(seeds: Tensor) -> Iterator[None]:
    """Inside, the host's draws are these of the device (N,), in order: each replay of a graph reads new ones."""
    global _seeds
    _seeds = iter(seeds.unbind())
    try:
        yield
    finally:
        _seeds = None


def graphs_wished() -> bool | None:
    """Return whether the environment's DOCNMT_GRAPHS is on or off; None if it says nothing: where they can be.

    Raises:
        UserError: it says something else.
    """
    wish = os.environ.get("DOCNMT_GRAPHS")
    if wish not in ("on", "off", None):
        raise UserError(f"DOCNMT_GRAPHS={wish}: expected on or off")
    return None if wish is None else wish == "on"
