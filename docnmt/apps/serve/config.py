"""The options of docnmt-serve. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from docnmt.registry.options import below, option


@dataclass(frozen=True)
class ServeConfig:
    """Where the service listens, who may use it, and how much it takes."""

    host: str = option("127.0.0.1", "address to listen on; 0.0.0.0: all of this machine", metavar="ADDRESS", basic=True)
    port: int = option(8000, "port to listen on; 0: a free one, which is printed", basic=True)
    token_file: str | None = option(
        None, "file with a secret, which requests must bring: Authorization: Bearer SECRET; only its owner may read it",
        metavar="FILE", basic=True,
    )  # fmt: skip
    allowed_hosts: tuple[str, ...] = option(
        (), "without a token: names beside localhost and IP addresses by which the service is called", metavar="NAME",
        basic=True,
    )  # fmt: skip
    splitter: Literal["rules", "sentencex"] = option(
        "rules", "what splits running text into sentences, as in docnmt-translate"
    )
    max_body: int = option(8_000_000, "bytes of a request's body, at most", metavar="BYTES")
    max_request_tokens: int = option(
        100_000, "source subwords of a request, at most; others wait while a document is encoded", metavar="N"
    )
    max_sentence_tokens: int = option(
        2000,
        "source subwords of one sentence, at most: its time is quadratic; running text is cut into sentences first",
        metavar="N",
    )
    max_explain_tokens: int = option(
        4000, "the same of a request that wants to know what was read, for which all others wait", metavar="N"
    )
    queue_length: int = option(256, "requests that are read, wait or are translated; further ones get a 503")
    request_timeout: float = option(600.0, "seconds until an answer is given up", metavar="SECONDS")
    body_timeout: float = option(30.0, "seconds in which a request must have arrived", metavar="SECONDS")
    max_sessions: int = option(100, "documents that translators may have open at once (POST /sessions)", metavar="N")
    session_idle: float = option(
        3600.0, "seconds after which an open document that nobody uses is forgotten", metavar="SECONDS"
    )
    grace: float = option(30.0, "seconds to finish what is at work after SIGTERM or Ctrl-C", metavar="SECONDS")

    def problems(self) -> list[str]:
        """Values out of range."""
        found = below(self, 0, "port", "grace", "max_explain_tokens", "max_sessions")
        found += below(self, 1, "max_body", "max_request_tokens", "max_sentence_tokens", "queue_length")
        found += [f"--port: must be at most 65535, got {self.port}"] if self.port > 65535 else []
        for name in ("request_timeout", "body_timeout", "session_idle"):
            if getattr(self, name) <= 0:
                found.append(f"--{name.replace('_', '-')}: must be above 0, got {getattr(self, name)}")
        return found
