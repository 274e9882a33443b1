"""Streams of the service: when their request is cancelled."""

from __future__ import annotations

import asyncio
import time

import pytest
from starlette.types import Message

from docnmt.apps.serve.http import Stream


@pytest.mark.parametrize("turns", range(5))
def test_a_cancellation_that_comes_with_the_end_of_a_write_is_not_lost(turns: int) -> None:
    """Python 3.10's and 3.11's asyncio.wait_for loses it, and the client is not told that the service stops."""

    async def request() -> None:
        sent = asyncio.get_running_loop().create_future()

        async def send(message: Message) -> None:
            await sent

        writing = asyncio.create_task(Stream(send, time.monotonic() + 10).write({"text": "a"}))
        for _ in range(5):
            await asyncio.sleep(0)
        sent.set_result(None)
        for _ in range(turns):
            await asyncio.sleep(0)
        heard = writing.cancel()
        await asyncio.wait({writing})
        assert writing.cancelled() == heard

    asyncio.run(request())
