"""Sessions of a translator: how long one segment takes, and whether what was confirmed is kept to.

    python tools/bench/sessions.py --path runs/document/checkpoint_last.safetensors --text test.en --ref test.fr \\
        --address fr [--segments 200] [--beside runs/sentence/checkpoint_last.safetensors] [-- options of docnmt-serve]

Both files are corpora, a sentence a line with empty lines between documents. Each document is a session, or, with
--segments, as many documents together as fill one. The translator is simulated: every segment is confirmed with its
reference. Then each segment in turn loses its confirmation, is translated beside all others, and is confirmed again. A
request for the same segment alone follows (`/translate`), to the same service and to that of the model --beside.

The first table has the seconds from request to answer, by the clock and of the service's processor time; the first
translation of a session, which also reads the source, is counted apart. The second one compares what was answered with
the reference: forms of address (--address), repeated terms (lexical consistency), BLEU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu

from docnmt.core.scoring.consistency import learn_lexicon, lexical_consistency, score_address

from serve import divided  # isort: skip  (of this folder)
from service import Server  # isort: skip

Documents = list[list[tuple[str, str]]]


@dataclass
class Answers:
    """What one kind of request was answered, and the seconds that it took: by the clock, of the processor."""

    texts: list[str] = field(default_factory=list)
    seconds: list[tuple[float, float]] = field(default_factory=list)

    def row(self, name: str) -> str:
        """A line of the table of times; it is empty if there was no request."""
        if not self.seconds:
            return ""
        quantiles = np.quantile(np.array(self.seconds), [0.5, 0.95, 1.0], axis=0)  # (3, 2)
        values = " | ".join(f"{value:.2f}" for value in quantiles.T.flatten())
        return f"| {name} | {len(self.seconds):,} | {values} |\n"


class Client:
    """A client of a service that measures its answers."""

    def __init__(self, server: Server) -> None:
        server.start()
        self.server = server

    def ask(self, method: str, path: str, body: object) -> Any:  # JSON
        """The answer to one request."""
        with contextlib.closing(HTTPConnection("127.0.0.1", self.server.port, timeout=600)) as connection:
            connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
            content = json.loads(answer.read())
        if answer.status >= 300:
            sys.exit(f"{method} {path}: {answer.status}: {content}")
        return content

    def translate(self, path: str, body: object, answers: Answers) -> Any:  # JSON
        """The same, measured."""
        clock, processor = time.perf_counter(), self.server.seconds()
        content = self.ask("POST", path, body)
        answers.seconds.append((time.perf_counter() - clock, self.server.seconds() - processor))
        return content

    def alone(self, source: str, answers: Answers) -> None:
        """Translate a segment by itself."""
        answers.texts.append(self.translate("/translate", {"text": source}, answers)["text"])


def sessions(documents: Documents, segments: int) -> Iterable[list[tuple[str, str]]]:
    """Whole documents together, until there are so many segments; what is above is cut."""
    if not segments:
        yield from documents
        return
    waiting: list[tuple[str, str]] = []
    for document in documents:
        waiting += document
        if len(waiting) >= segments:
            yield waiting[:segments]
            waiting = []


def confirm_and_translate(client: Client, document: list[tuple[str, str]], first: Answers, others: Answers) -> None:
    """Translate each segment of a document in which all others are confirmed."""
    content = [{"source": source, "translation": reference} for source, reference in document]
    address = f"/sessions/{client.ask('POST', '/sessions', {'segments': content})['session']}"
    for number, (_, reference) in enumerate(document):
        client.ask("PUT", f"{address}/segments/{number}", {"confirmed": False})
        answers = others if number else first
        (segment,) = client.translate(f"{address}/translate", {"segments": [number]}, answers)["segments"]
        others.texts.append(segment["translation"])
        client.ask("PUT", f"{address}/segments/{number}", {"translation": reference})


def scores(name: str, texts: Sequence[str], documents: Documents, address: str | None) -> str:
    """A line of the table of scores."""
    sources, references = zip(*(pair for document in documents for pair in document), strict=True)
    offsets = [0, *accumulate(map(len, documents))]
    terms = lexical_consistency(sources, texts, offsets, learn_lexicon(sources, references))
    cells = [f"{terms.ratio:.1f} of {terms.pairs:,}", f"{sacrebleu.corpus_bleu(texts, [references]).score:.1f}"]
    if address:
        forms = score_address(sources, texts, references, offsets, language=address).to_dict()
        cells = [f"{forms[kind]:.1f} of {forms[f'{kind}_lines']:,}" for kind in ("agreement", "consistency")] + cells
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--segments", type=int, default=0, help="of a session [those of a document]")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="of the sessions [all]")
    parser.add_argument("--beside", help="a model of sentences")
    parser.add_argument("--address", metavar="LANG", help="count forms of address in this language")
    parser.add_argument("options", nargs="*", help="of docnmt-serve, after --")
    given = parser.parse_args()
    texts, references = (divided(path.read_text(encoding="utf-8"), sys.maxsize) for path in (given.text, given.ref))
    pairs = [list(zip(*both, strict=True)) for both in zip(texts, references, strict=True)]
    documents = list(sessions(pairs, given.segments))[: given.most]
    paths = {"alone, the same model": given.path} | ({"alone, the model beside": given.beside} if given.beside else {})
    clients = {name: Client(Server(["--path", path, *given.options])) for name, path in paths.items()}
    session, first = Answers(), Answers()
    alone = {name: Answers() for name in clients}
    try:
        for document in documents:
            confirm_and_translate(next(iter(clients.values())), document, first, session)
            for source, _ in document:
                for name, client in clients.items():
                    client.alone(source, alone[name])
    finally:
        for client in clients.values():
            client.server.stop()
    print("| request | answers | p50, s | p95 | longest | processor: p50 | p95 | longest |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    print(first.row("in a session, its first") + session.row("in a session, later ones"), end="")
    print("".join(answers.row(name) for name, answers in alone.items()))
    forms = "agreement | consistency | " if given.address else ""
    print(f"| request | {forms}terms alike | BLEU |\n| --- |{' ---: |' * (forms.count('|') + 2)}")
    rows = {"in a session": session.texts, **{name: answers.texts for name, answers in alone.items()}}
    rows["the reference"] = [reference for document in documents for _, reference in document]
    print("\n".join(scores(name, texts, documents, given.address) for name, texts in rows.items()))


if __name__ == "__main__":
    main()
