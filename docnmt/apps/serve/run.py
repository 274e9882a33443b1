"""docnmt-serve: load, listen, stop in order."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import resource
import signal
import socket
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from docnmt.apps.commands.translating import Translating
from docnmt.apps.options import MemoryConfig, ModelsConfig, ServeConfig
from docnmt.apps.serve.http import HEADERS, Refused, client_of, json_response
from docnmt.apps.serve.routes import build
from docnmt.apps.serve.service import Service, share
from docnmt.core.search.config import GenerationConfig, SearchConfig
from docnmt.runtime.progress import lasting
from docnmt.runtime.system import UsageError, UserError

#: Seconds in which a client must have sent the head of a request, and must read some of an answer that waits for it.
IDLE = 15.0
#: Open files beside those of connections: of the model, of documents' processes, of the system's libraries.
FILES = 200
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: Seconds in which requests that are cancelled at shutdown may still send an error.
FAREWELL = 2.0


class _Protocol(H11Protocol):
    """uvicorn's HTTP protocol, which also closes connections that send nothing or do not read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._seen = self.cycle, 0
        self._looks = self.loop.call_later(IDLE, self._look)
        most, self.limit_concurrency = self.limit_concurrency, None  # else uvicorn would refuse requests
        address, proxies = self.client[0] if self.client else "", self.config.forwarded_allow_ips
        named = isinstance(proxies, list) and proxies != []
        is_proxy = isinstance(proxies, list) and inside(address, networks(proxies))
        self.peer = None if is_proxy else client_of(address, proxied=named)
        self.since = self.loop.time()
        if most is not None:
            self._make_room(most)

    def _make_room(self, most: int) -> None:
        """Close the oldest idle connection of the client that has most, or more than its share, if need be."""
        peers = Counter(connection.peer for connection in self.connections if isinstance(connection, _Protocol))
        if self.peer is not None and peers[self.peer] > share(most):
            crowded: str | None = self.peer
        elif len(self.connections) > most:
            crowded = max(peers, key=peers.__getitem__)
        else:
            return
        of_peer = [
            connection
            for connection in self.connections
            if isinstance(connection, _Protocol) and connection.peer == crowded
        ]
        idle = [connection for connection in of_peer if connection is not self and connection.is_idle]
        min(idle, key=lambda connection: connection.since, default=self).transport.abort()

    @property
    def is_idle(self) -> bool:
        """True if no request has come, or the last one is answered, though the rest of its body may be read."""
        return self.cycle is None or self.cycle.response_complete or "answered" in self.cycle.scope["state"]

    def send_400_response(self, msg: str) -> None:
        """Send the answer to what is not HTTP, with the headers and the form of all errors."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # the answer is on its way, or sent
            self.transport.close()
            return
        refused = Refused(400, "invalid_request", "this is no request of HTTP/1.1, or its head is too long")
        answer = json_response(refused.content()[1], 400, {**HEADERS, "connection": "close"})
        event = h11.Response(status_code=400, headers=answer.raw_headers, reason=b"Bad Request")
        for part in (event, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(part) or b"")
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has ended."""
        self._looks.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if self._seen == (self.cycle, unread):
            if unread:
                self.transport.abort()
            elif self.is_idle:
                self.transport.close()
        self._seen = self.cycle, unread
        self._looks = self.loop.call_later(IDLE, self._look)


class _Server(uvicorn.Server):
    """uvicorn's server, which also prints its address, heeds SIGHUP, and marks the service as stopping."""

    def __init__(self, config: uvicorn.Config, service: Service, where: str) -> None:
        super().__init__(config)
        self._service, self._where = service, where

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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no new requests, and finish the current ones; those that are cancelled send an error."""
        self._service.stopping = True
        await super().shutdown(sockets)
        if left := set(self.server_state.tasks):
            await asyncio.wait(left, timeout=FAREWELL)


def serve(
    config: ServeConfig, models: ModelsConfig, memory: MemoryConfig, options: GenerationConfig, search: SearchConfig
) -> None:
    """Serve requests until a signal ends the service."""
    if config.token_file is None and not config.open and not is_own(config.host):
        raise UsageError(
            f"--host {config.host}: other machines could use the service without a secret; give --token-file FILE, or "
            "--open if all may"
        )
    proxies = networks(config.proxy)
    token = None if config.token_file is None else read_token(Path(config.token_file))
    bound = listen(config.host, config.port)
    with contextlib.redirect_stderr(lasting(sys.stderr, waits=False)):
        service = Service(Translating.open(models, memory, options, search), config)
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
            proxy_headers=bool(proxies),
            forwarded_allow_ips=[str(proxy) for proxy in proxies],
            timeout_graceful_shutdown=round(config.grace),
            limit_concurrency=most_connections(4 * config.queue_length + 64),
        )
        where = f"listening on http://{f'[{host}]' if ':' in host else host}:{port}"
        service.files.warm()
        gc.freeze()  # what stays is not looked at when a large request makes garbage, nor at the end, for seconds
        try:
            _Server(settings, service, where).run(sockets=[bound])
        finally:
            service.files.close()
            service.worker.stop()


def is_own(host: str) -> bool:
    """Return True if only this machine can reach an address."""
    try:
        return host != "" and all(ipaddress.ip_address(a[4][0]).is_loopback for a in socket.getaddrinfo(host, 0))
    except OSError:  # the name is unknown, which `listen` reports
        return True


def networks(addresses: Iterable[str]) -> list[Network]:
    """Return the networks of addresses and networks."""
    try:
        return [ipaddress.ip_network(address, strict=False) for address in addresses]
    except ValueError as error:
        raise UsageError(
            f"--proxy: expected addresses of proxies, or networks such as 172.16.0.0/12: {error}"
        ) from None


def inside(address: str, proxies: Iterable[Network]) -> bool:
    """Return True if an address is in one of the networks."""
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(number in network for network in proxies)


def most_connections(wanted: int) -> int:
    """Return how many connections there may be: `wanted`, unless the system allows fewer open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted + FILES if hard == resource.RLIM_INFINITY else min(wanted + FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < enough:
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
        soft = enough
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - FILES))


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address, and does not listen yet."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio asks: only TCP sends without delay
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise UserError(f"--host {host} --port {port}: cannot listen there: {error.strerror or error}") from error
    bound.set_inheritable(False)
    return bound


def read_token(path: Path) -> str:
    """Return the secret in a file."""
    try:
        mode, token = path.stat().st_mode, path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--token-file {path}: {getattr(error, 'strerror', None) or error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(f"--token-file {path}: others may read it; chmod 600 {path}")
    if len(token) < 16 or not token.isascii() or token.split() != [token]:
        raise UserError(f"--token-file {path}: expected one word of at least 16 ASCII characters: openssl rand -hex 24")
    return token
