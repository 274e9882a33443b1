"""Raw text to subwords, in this process or in several. The result is the same."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from types import TracebackType

from docnmt.core.data.store import TextArray, TokenArray
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.runtime.errors import UserError
from docnmt.runtime.launch import processors

#: Sentences a piece of work; fixed, so that no output depends on the number of workers.
CHUNK = 4096
#: Chunks after which what was read of a mapped file leaves this process.
_LET_GO = 16

#: Chunks for which a process more is worth its start, of about a second.
_WORTH = 32

#: The tokenizers of a worker process, loaded once.
_of_worker: dict[str, Tokenizer] = {}


def fitting_workers(lines: int) -> int:
    """As many processes as this one may use processors, but each with work worth its start."""
    return max(1, min(processors(), lines // (CHUNK * _WORTH)))


class Encoder:
    """Cuts lines into subwords with `workers` processes; a context manager, for it ends them.

    Args:
        tokenizers: of each side.
    """

    def __init__(self, tokenizers: Mapping[str, Tokenizer], workers: int) -> None:
        self._tokenizers, self._workers = tokenizers, workers
        self._pool: ProcessPoolExecutor | None = None
        if workers > 1:
            models = {side: tokenizer.to_bytes() for side, tokenizer in tokenizers.items()}
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(workers, context, _start_worker, (models,))

    def __enter__(self) -> Encoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def encode(self, text: TextArray, side: str) -> Iterator[TokenArray]:
        """The subwords of one chunk of lines after the other, in order."""
        chunks = _chunks(text)
        if self._pool is None:
            yield from (_encode(self._tokenizers[side], chunk) for chunk in chunks)
            return
        waiting: list[Future[TokenArray]] = []
        try:
            for chunk in chunks:
                with _interrupts_blocked():  # a worker may start here
                    waiting.append(self._pool.submit(_work, side, chunk))
                if len(waiting) > 4 * self._workers:
                    yield waiting.pop(0).result()
            yield from (future.result() for future in waiting)
        except BrokenProcessPool as error:
            raise UserError("a worker process died (killed, or out of memory?); try fewer --workers") from error


def _chunks(text: TextArray) -> Iterator[list[str]]:
    for number, first in enumerate(range(0, len(text), CHUNK), 1):
        yield text[first : first + CHUNK]
        if number % _LET_GO == 0:
            text.let_go()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes that start here never see Ctrl-C: it is the parent's to end them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(models: Mapping[str, bytes]) -> None:
    """In a worker: load the tokenizers, and end when the parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    _of_worker.update({side: Tokenizer.from_bytes(model) for side, model in models.items()})


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _work(side: str, lines: list[str]) -> TokenArray:
    return _encode(_of_worker[side], lines)


def _encode(tokenizer: Tokenizer, lines: list[str]) -> TokenArray:
    return TokenArray.from_lists(tokenizer.encode(lines), tokenizer.vocab_size)
