"""Encoding of raw text as subwords, in this process or in several, with the same result."""

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

from docnmt.core.corpus import TextArray, TokenArray
from docnmt.core.data.tokenizer import Tokenizer
from docnmt.runtime.errors import UserError
from docnmt.runtime.launch import processors

#: Sentences per task of a worker; fixed, so that no output depends on the number of workers.
CHUNK = 4096
#: Number of chunks after which the pages read of a mapped file are released.
_LET_GO = 16

#: Number of chunks that make another process worth its start, of about a second.
_WORTH = 32

#: The tokenizers of a worker process, loaded once.
_of_worker: dict[str, Tokenizer] = {}


def fitting_workers(lines: int) -> int:
    """Return the number of available processors, limited so that each process has work worth its start."""
    return max(1, min(processors(), lines // (CHUNK * _WORTH)))


class LineEncoder:
    """Cuts lines into subwords with `workers` processes; a context manager that ends the processes.

    Args:
        tokenizers: one of each side.
    """

    def __init__(self, tokenizers: Mapping[str, Tokenizer], workers: int) -> None:
        self._tokenizers, self._workers = tokenizers, workers
        self._pool: ProcessPoolExecutor | None = None
        if workers > 1:
            models = {side: tokenizer.to_bytes() for side, tokenizer in tokenizers.items()}
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(workers, context, _start_worker, (models,))

    def __enter__(self) -> LineEncoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def encode(self, text: TextArray, side: str) -> Iterator[TokenArray]:
        """Yield the subwords of the lines, one chunk after the other, in order."""
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
            text.release_pages()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in processes that start here: the parent process ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(models: Mapping[str, bytes]) -> None:
    """Load the tokenizers in a worker process, and end it when its parent is killed."""
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
