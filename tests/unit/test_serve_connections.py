"""Connections of the service whose clients read slowly, or not at all."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from docnmt.apps.serve import run as run_service
from docnmt.apps.serve.http import Refused, Stream

LARGE = b"x" * 16_000_000  # more than the system keeps for a connection
Client = Callable[[socket.socket], Awaitable[None]]


async def large(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers with `LARGE`."""
    await Response(LARGE)(scope, receive, send)


def serve(client: Client) -> tuple[int, list[dict[str, Any]]]:
    """Serve `large` to a client; the number of requests and connections that are left, and errors of the event loop."""
    wrong: list[dict[str, Any]] = []
    state = ServerState()

    async def run() -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: wrong.append(context))
        config = uvicorn.Config(large, http=run_service._Protocol, ws="none", lifespan="off", log_config=None)
        config.load()
        server = await loop.create_server(
            lambda: run_service._Protocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            connection.setblocking(False)
            await loop.sock_connect(connection, server.sockets[0].getsockname())
            await client(connection)
            left = len(state.tasks) + len(state.connections)
        server.close()
        return left

    return asyncio.run(run()), wrong


async def ask(connection: socket.socket, more: str = "") -> None:
    request = f"GET / HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"
    await asyncio.get_running_loop().sock_sendall(connection, request.encode())


def test_an_answer_that_was_read_late_ends_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_service, "IDLE", 0.5)

    async def client(connection: socket.socket) -> None:
        await ask(connection, "Connection: close\r\n")
        size = 0
        while part := await asyncio.get_running_loop().sock_recv(connection, 1 << 20):
            size += len(part)
        assert size > len(LARGE)
        await asyncio.sleep(1)

    assert serve(client) == (0, [])


def test_a_second_request_of_a_client_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It held its place in the queue for ever."""
    monkeypatch.setattr(run_service, "IDLE", 0.5)

    async def client(connection: socket.socket) -> None:
        await ask(connection)
        await ask(connection)
        await asyncio.sleep(3)

    assert serve(client) == (0, [])


def test_the_head_of_a_stream_has_the_deadline_of_the_stream() -> None:
    async def send(message: Any) -> None:
        await asyncio.sleep(30)

    async def begin() -> str:
        try:
            await asyncio.wait_for(Stream(send, 0).begin(), 10)
        except Refused as refused:
            return refused.code
        return "sent"

    assert asyncio.run(begin()) == "gone"


def test_a_client_has_a_share_of_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight each has two; for a third the oldest idle one is closed, and none of another client."""
    peers = iter(["192.0.2.9", *["192.0.2.1"] * 4])
    monkeypatch.setattr(run_service, "client_of", lambda address, proxied: next(peers))

    async def run() -> list[bool]:
        loop, state = asyncio.get_running_loop(), ServerState()
        config = uvicorn.Config(
            large, http=run_service._Protocol, ws="none", lifespan="off", log_config=None, limit_concurrency=8
        )
        config.load()
        server = await loop.create_server(
            lambda: run_service._Protocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        connections = []
        for _ in range(5):
            connections.append(await asyncio.open_connection(*server.sockets[0].getsockname()))
            await asyncio.sleep(0.05)
        closed = []
        for reader, writer in connections:
            try:
                closed.append(await asyncio.wait_for(reader.read(1), 0.5) == b"")
            except TimeoutError:  # before Python 3.11 another one
                closed.append(False)
            except ConnectionResetError:
                closed.append(True)
            writer.close()
        server.close()
        return closed

    assert asyncio.run(run()) == [False, True, True, False, False]


def test_a_log_that_nobody_reads_stops_nothing_and_says_what_is_missing() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as reader, open(writing, "w", encoding="utf-8") as stream:
        log = run_service.lasting(stream, waits=False)
        for number in range(20_000):  # more than a pipe takes
            print(f"line {number}", file=log)
        os.set_blocking(reading, False)
        first = reader.read(1 << 20)
        print("a last line", file=log)
        second = reader.read(1 << 20)
    assert first.startswith(b"line 0\nline 1\n")
    lost = b"".join(b"line %d\n" % number for number in range(20_000))[len(first) :]
    assert second.endswith(b"a last line\n")
    assert str(len(lost)).encode() in second
