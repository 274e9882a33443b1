"""docnmt-serve as a process, and clients of it."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import small_system
from starlette.testclient import TestClient

from docnmt.apps.commands.translating import LoadedModels, Translating
from docnmt.apps.options import ServeConfig
from docnmt.apps.serve.routes import build
from docnmt.apps.serve.service import Service
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig

ROOT = Path(__file__).parents[2]

#: Models of every kind of reading.
ARCHITECTURES = [
    ("transformer_tiny", {}), ("concat_transformer_tiny", {"source_context": 1, "target_window": 2}),
    ("doc_transformer_tiny", {}), ("copy_transformer_tiny", {}), ("hier_cond_transformer_tiny", {}),
    ("cond_transformer_tiny", {"target_context": "conditional"}),
]  # fmt: skip


#: A job that a script started in the background ignores SIGINT, and so would what the tests start.
heed_interrupts = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)


@dataclass
class Served:
    """A running service."""

    process: subprocess.Popen[str]
    address: str
    log: Path

    def client(self, **options: object) -> httpx.Client:
        """A client of it that waits as long as it takes."""
        return httpx.Client(base_url=self.address, timeout=120, trust_env=False, **options)  # type: ignore[arg-type]

    def connected(self) -> socket.socket:
        """A connection to it."""
        host, _, port = self.address.removeprefix("http://").partition(":")
        return socket.create_connection((host, int(port)), timeout=60)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@contextlib.contextmanager
def serve(log: Path, *words: str, path: Path = ROOT) -> Iterator[Served]:
    """docnmt-serve on a free port; `path`: a folder with modules that come before others."""
    command = [sys.executable, "-m", "docnmt.cli.serve", "--port", "0", "--device", "cpu", *words]
    environment = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}"}
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, text=True, env=environment, cwd=log.parent, preexec_fn=heed_interrupts
        )
    try:
        while not (listening := re.search(r"listening on (\S+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
        yield Served(process, listening[1], log)
    finally:
        process.kill()
        process.wait()


def translating(arch: str = "transformer_tiny", **options: Any) -> Translating:
    """A model without a checkpoint, and a beam of 2."""
    loaded = LoadedModels((Path("m"),), (small_system.model(arch, **options),), small_system.task())
    return Translating(loaded, GenerationConfig(), BeamSearchConfig(beam=2))


def started(models: Translating, token: str | None = None, **options: Any) -> Any:
    """A client of the application itself; `service` is what it asks."""
    service = Service(models, ServeConfig(**options))
    client = TestClient(build(service, token=token), base_url="http://localhost", raise_server_exceptions=False)
    client.service = service  # type: ignore[attr-defined]
    return client
