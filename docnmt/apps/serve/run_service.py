"""The command docnmt-serve: load the models, listen, and shut down in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from docnmt.apps.commands.config import MemoryConfig, ModelsConfig
from docnmt.apps.commands.memory_option import open_memory
from docnmt.apps.commands.models import load_models
from docnmt.apps.serve.app import build
from docnmt.apps.serve.config import ServeConfig
from docnmt.apps.serve.service import Service
from docnmt.apps.serve.worker import Models
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.runtime.errors import UserError

#: Seconds in which a client must have sent the head of a request, and must read some of an answer that waits for it.
IDLE = 15.0
#: Seconds in which requests that are cancelled at shutdown may still send an error.
FAREWELL = 2.0
#: Seconds after these in which threads that still read or encode a document may end.
LAST = 1.0


class _Protocol(H11Protocol):
    """uvicorn's HTTP protocol, which also closes connections that send nothing or do not read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._seen = self.cycle, 0
        self._looks = self.loop.call_later(IDLE, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has ended."""
        self._looks.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if self._seen == (self.cycle, unread):
            if unread:
                self.transport.abort()
            elif self.cycle is None or self.cycle.response_complete:
                self.transport.close()
        self._seen = self.cycle, unread
        self._looks = self.loop.call_later(IDLE, self._look)


class _Server(uvicorn.Server):
    """uvicorn's server, which also prints its address, marks the service as stopping, and ends in time."""

    def __init__(self, config: uvicorn.Config, service: Service, where: str) -> None:
        super().__init__(config)
        self._service, self._where, self._came = service, where, signal.SIGTERM

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and print the address."""
        await super().startup(sockets)
        print(f"docnmt-serve: {self._where}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGTERM and SIGINT as uvicorn does, and also SIGHUP unless it is ignored (nohup)."""
        before = signal.getsignal(signal.SIGHUP)
        with super().capture_signals():
            if before != signal.SIG_IGN:
                signal.signal(signal.SIGHUP, self.handle_exit)
            try:
                yield
            finally:
                signal.signal(signal.SIGHUP, before)  # uvicorn raises received signals again

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note the signal, and stop."""
        self._came = signal.Signals(sig)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no new requests, and finish the current ones; those that are cancelled send an error."""
        self._service.stopping = True
        last = threading.Timer(self._service.config.grace + FAREWELL + LAST, self._end)
        last.daemon = True
        last.start()
        await super().shutdown(sockets)
        if left := set(self.server_state.tasks):
            await asyncio.wait(left, timeout=FAREWELL)

    def _end(self) -> None:
        """End the process although a thread still reads or encodes a document; nothing that it does is kept."""
        print(f"docnmt-serve: stopped by {self._came.name} in the midst of a document", file=sys.stderr, flush=True)
        os._exit(130 if self._came == signal.SIGINT else 143)


def serve(
    config: ServeConfig, models: ModelsConfig, memory: MemoryConfig, options: GenerationConfig, search: SearchConfig
) -> None:
    """Serve requests until a signal ends the service.

    Raises:
        UserError: the models cannot be loaded, the address is taken, or the file of the token is not valid.
    """
    token = None if config.token_file is None else read_token(Path(config.token_file))
    bound = listen(config.host, config.port)
    loaded = load_models(models)
    loaded.check_formality(options.formality)
    service = Service(Models(loaded, options, search, models.context_window, open_memory(memory, loaded)), config)
    host, port = bound.getsockname()[:2]
    settings = uvicorn.Config(
        build(service, token=token),
        http=_Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=round(config.grace),
        limit_concurrency=4 * config.queue_length + 64,
    )
    where = f"listening on http://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        _Server(settings, service, where).run(sockets=[bound])
    finally:
        service.worker.stop()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address, and does not listen yet.

    Raises:
        UserError: the address is taken, or is not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise UserError(f"--host {host} --port {port}: cannot listen there: {error.strerror or error}") from error
    bound.set_inheritable(False)
    return bound


def read_token(path: Path) -> str:
    """Return the secret in a file.

    Raises:
        UserError: it cannot be read, others than its owner may read it, or it is not one long ASCII word.
    """
    try:
        mode, token = path.stat().st_mode, path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--token-file {path}: cannot be read: {error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(f"--token-file {path}: others may read it; chmod 600 {path}")
    if len(token) < 16 or not token.isascii() or token.split() != [token]:
        raise UserError(f"--token-file {path}: expected one word of at least 16 ASCII characters: openssl rand -hex 24")
    return token
