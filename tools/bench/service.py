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
        while not (listening := re.search(r"listening on http://\S+:(\d+)", self.log.read_text())):
            if self.process.poll() is not None:
                sys.exit(self.log.read_text())
            time.sleep(0.05)
        self.port = int(listening[1])
        return time.monotonic() - begun

    def stop(self, number: int = 15) -> None:
        """Send a signal and wait."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait()

    def family(self) -> list[int]:
        """All its processes."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")  # any thread may have started one
        below = [pid for task in tasks for pid in _read(str(task)).split() if pid.isdigit() and pid != "0"]
        return [self.process.pid, *map(int, below)]

    def memory(self) -> float:
        """MB of all processes together; what several share counts once (PSS)."""
        return sum(_number(f"/proc/{pid}/smaps_rollup", r"Pss:\s+(\d+)") for pid in self.family()) / 1024

    def resident(self) -> float:
        """Resident MB of all processes, added up."""
        return sum(_number(f"/proc/{pid}/status", r"VmRSS:\s+(\d+)") for pid in self.family()) / 1024

    def seconds(self) -> float:
        """Processor time of all processes so far, and of those that have ended."""
        ticks = 0
        for number, pid in enumerate(self.family()):
            fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[11 : 13 if number else 15]
            ticks += sum(map(int, fields))
        return ticks / os.sysconf("SC_CLK_TCK")

    async def post(
        self, body: bytes, *, path: str = "/translate", accept: str = "*/*", pause: float = 0.0, leave: float = 0.0
    ) -> tuple[int, bytes]:
        """One request on a connection of its own → status and body; (0, b"") where `leave` seconds have passed.

        Args:
            pause: seconds between the parts of a request that is sent slowly, and read slowly.

        Raises:
            OSError: no whole answer came.
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
            top, end, rest = answer.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", top)
            if not end or (length and len(rest) != int(length[1])):
                raise ConnectionResetError("the answer ends before its end")
            if b"transfer-encoding: chunked" in top.lower():
                rest = unchunked(rest)
            return int(top.split()[1]), rest
        finally:
            writer.close()


def unchunked(data: bytes) -> bytes:
    """A body in chunks as one."""
    out = b""
    while data:
        size, end, data = data.partition(b"\r\n")
        if not end:
            break
        if not int(size, 16):
            return out
        out, data = out + data[: int(size, 16)], data[int(size, 16) + 2 :]
    raise ConnectionResetError("the body ends before its end")


def _read(path: str) -> str:
    """A file of /proc; of a process that has just ended, zeros."""
    try:
        return Path(path).read_text()
    except OSError:
        return ") " + "0 " * 16


def _number(path: str, pattern: str) -> int:
    match = re.search(pattern, _read(path))
    return int(match[1]) if match else 0
