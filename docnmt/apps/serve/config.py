"""The options of docnmt-serve. This file imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from docnmt.registry.options import Open, option


@dataclass(frozen=True)
class ServeConfig:
    """Options for the service's address, its access control and its limits."""

    host: str = option(
        "127.0.0.1",
        "address to listen on; others than this machine's own, such as 0.0.0.0, ask for --token-file or --open",
        metavar="ADDRESS",
        basic=True,
    )
    port: int = option(8000, "port to listen on; 0: a free one, which is printed", basic=True, between=(0, 65535))
    token_file: str | None = option(
        None,
        "file with a secret, which requests must bring: Authorization: Bearer SECRET; only its owner may read it",
        metavar="FILE",
        basic=True,
    )
    open: bool = option(
        False,
        "whoever reaches --host may use the service, without a secret; else another --host is refused",
        basic=True,
    )
    proxy: tuple[str, ...] = option(
        (),
        "addresses or networks of proxies before the service, whose X-Forwarded-For and X-Forwarded-Proto are believed",
        metavar="ADDRESS",
        basic=True,
    )
    allowed_hosts: tuple[str, ...] = option(
        (),
        "without a token: names beside localhost and IP addresses by which the service is called",
        metavar="NAME",
        basic=True,
    )
    splitter: Literal["auto", "rules", "sentencex"] = option(
        "auto", "what splits running text into sentences, as in docnmt-translate"
    )
    protect: bool = option(
        True, "placeholders, addresses, tags and the like come through as they are, as in docnmt-translate"
    )
    max_body: int = option(8_000_000, "bytes of a request's body, at most", metavar="BYTES", between=(1, None))
    max_request_tokens: int = option(
        100_000,
        "source subwords of a request, at most; others wait while a document is encoded",
        metavar="N",
        between=(1, None),
    )
    max_sentence_tokens: int = option(
        2000,
        "source subwords of one sentence, at most: its time is quadratic; running text is cut into sentences first",
        metavar="N",
        between=(1, None),
    )
    max_explain_tokens: int = option(
        4000,
        "the same of a request that wants to know what was read, for which all others wait",
        metavar="N",
        between=(0, None),
    )
    queue_length: int = option(
        256, "requests that are read, wait or are translated; further ones get a 503", between=(1, None)
    )
    request_timeout: float = option(
        600.0, "seconds until an answer is given up", metavar="SECONDS", between=(Open(0), None)
    )
    body_timeout: float = option(
        30.0, "seconds in which a request must have arrived", metavar="SECONDS", between=(Open(0), None)
    )
    file_timeout: float = option(
        60.0,
        "seconds in which a document must be read, and its translation written",
        metavar="SECONDS",
        between=(Open(0), None),
    )
    file_memory: int = option(
        1000, "megabytes that a process may use that reads documents", metavar="MB", between=(100, None)
    )
    file_processes: int = option(4, "processes that read documents, at most", metavar="N", between=(1, None))
    max_sessions: int = option(
        100, "documents that translators may have open at once (POST /sessions)", metavar="N", between=(0, None)
    )
    session_idle: float = option(
        3600.0,
        "seconds after which an open document that nobody uses is forgotten",
        metavar="SECONDS",
        between=(Open(0), None),
    )
    grace: float = option(
        30.0, "seconds to finish what is at work after SIGTERM or Ctrl-C", metavar="SECONDS", between=(0, None)
    )
