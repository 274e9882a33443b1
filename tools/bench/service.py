"""A running docnmt-serve, and requests to it that may be slow or broken off."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Server:
    """A running docnmt-serve."""

    options: list[str]
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    log: Path = field(default_factory=lambda: Path(tempfile.mkstemp(prefix="docnmt-serve-")[1]))

    def start(self, *more: str) -> float:
        """Until it listens; the seconds that takes."""
        begun, words = time.monotonic(), [*self.options, "--port", str(self.port), *more]
        with self.log.open("w") as out:
            self.process = subprocess.Popen([sys.executable, "-m", "docnmt.cli.serve", *words], stdout=out, stderr=out)
        while not (found := re.search(r"listening on http://\S+:(\d+)", self.log.read_text())):
            if self.process.poll() is not None:
                sys.exit(self.log.read_text())
            time.sleep(0.05)
        self.port = int(found[1])
        return time.monotonic() - begun

    def stop(self, number: int = 15) -> None:
        """Send a signal and wait."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait()

    def memory(self) -> float:
        """Resident MB."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found[1]) / 1024 if found else 0.0

    def seconds(self) -> float:
        """Processor time so far."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def post(
        self, body: bytes, *, path: str = "/translate", accept: str = "*/*", pause: float = 0.0, leave: float = 0.0
    ) -> tuple[int, bytes]:
        """One request on a connection of its own → status and body; (0, b"") where `leave` seconds have passed.

        Args:
            pause: seconds between the parts of a request that is sent slowly, and read slowly.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            head = (
                f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: {accept}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            ).encode()
            whole = head + body
            for begin in range(0, len(whole), len(whole) // 8 + 1 if pause else len(whole)):
                writer.write(whole[begin : begin + (len(whole) // 8 + 1 if pause else len(whole))])
                await writer.drain()
                await asyncio.sleep(pause)
            if leave:
                await asyncio.sleep(leave)
                return 0, b""
            answer = b""
            while part := await reader.read(512 if pause else 1 << 16):
                answer += part
                await asyncio.sleep(pause / 8)
            top, _, rest = answer.partition(b"\r\n\r\n")
            if b"transfer-encoding: chunked" in top.lower():
                rest = unchunked(rest)
            return int(top.split()[1]), rest
        finally:
            writer.close()


def unchunked(data: bytes) -> bytes:
    """A body in chunks as one."""
    out = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        if not int(size, 16):
            return out
        out, data = out + data[: int(size, 16)], data[int(size, 16) + 2 :]
    raise ValueError("the body ends before its end")
