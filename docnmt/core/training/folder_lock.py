"""A lock that admits one job at a time to a folder, also across machines that share the file system.

The system's lock on `.lock` keeps out other processes of this machine and, on most file systems, of others. Not every
file system passes locks between machines; so the job also writes `.running` there, with its machine and
process, and touches it while it lives.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from docnmt.runtime.errors import UserError

LOCK, SIGN = ".lock", ".running"
#: Seconds between two touches, and after how many without one a job on another machine is considered dead.
BEAT, DEAD = 20.0, 120.0


class FolderLock:
    """The exclusive right to write into a folder, which this process holds while it trains there.

    Args:
        folder: must exist. name: its name in messages.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.sign, self.name, self._folder = folder / SIGN, name, folder
        self._token = json.dumps({"host": socket.gethostname(), "machine": _machine(), "process": os.getpid()})

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock inside the context.

        Raises:
            UserError: another job holds it, here or elsewhere.
            OSError: the folder cannot be written.
        """
        with (self._folder / LOCK).open("a") as file:
            system_knows = True
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{self.name}: another docnmt-train is writing there{self._who()}") from None
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                    raise
                system_knows = False  # this file system has no locks: `.running` must suffice
            self._check_others(here=not system_knows)
            self._claim()
            ended = threading.Event()
            threading.Thread(target=self._beat, args=(ended,), daemon=True).start()
            try:
                yield
            finally:
                ended.set()
                with contextlib.suppress(OSError):
                    if self._is_ours():
                        self.sign.unlink()

    def check(self) -> None:
        """Check before a write that the lock is still ours.

        Raises:
            UserError: this process slept for so long that another job has taken the folder.
        """
        if not self._is_ours():
            raise UserError(
                f"{self.name}: another docnmt-train has taken it over{self._who()}; this one writes no more"
            )

    def _is_ours(self) -> bool:
        try:
            return self.sign.read_text(encoding="utf-8") == self._token
        except OSError:
            return False

    def _claim(self) -> None:
        """Create `.running`; if two jobs start at once, only one succeeds."""
        self.sign.unlink(missing_ok=True)
        try:
            with self.sign.open("x", encoding="utf-8") as file:
                file.write(self._token)
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            raise UserError(f"{self.name}: another docnmt-train begins there at this moment") from None

    def _check_others(self, *, here: bool) -> None:
        """Refuse a folder with a live job elsewhere, or, with `here`, on this machine; ages are the file system's."""
        try:
            sign, modified = json.loads(self.sign.read_text(encoding="utf-8")), self.sign.stat().st_mtime
        except (OSError, ValueError):
            return
        if not isinstance(sign, dict) or (sign.get("machine") == _machine() and not here):
            return
        clock = self.sign.with_name(f"{SIGN}.{os.getpid()}.tmp")
        clock.touch()
        age = clock.stat().st_mtime - modified
        clock.unlink()
        if age < DEAD:
            raise UserError(
                f"{self.name}: another docnmt-train is writing there{self._who()}; it gave a sign of life "
                f"{max(age, 0):.0f} seconds ago; if it was killed, try again in {DEAD - max(age, 0):.0f} seconds"
            )

    def _who(self) -> str:
        """Return ` (process 12 on node03)`, or nothing."""
        try:
            sign = json.loads(self.sign.read_text(encoding="utf-8"))
            return f" (process {sign['process']} on {sign['host']})"
        except (OSError, ValueError, TypeError, KeyError):
            return ""

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(BEAT):
            with contextlib.suppress(OSError):
                if self._is_ours():
                    os.utime(self.sign)


def _machine() -> str:
    """Return an identifier of this machine that is unique until it restarts."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()
