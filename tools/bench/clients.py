"""What clients send to docnmt-serve in its load test, in all forms, and whether the answers are right."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from service import Server

Documents = list[list[str]]
#: A line that docnmt-serve may take for several sentences.
SEVERAL = re.compile(r"[.!?…]\S*\s|[。！？]")
#: Other services' forms: where to, a body for a document's sentences and a language, their translations in the answer.
OTHERS: dict[str, tuple[str, Callable[[list[str], str], Any], Callable[[Any], list[str]]]] = {
    "DeepL": (
        "/v2/translate", lambda lines, target: {"text": lines, "target_lang": target, "split_sentences": "0"},
        lambda answer: [translation["text"] for translation in answer["translations"]],
    ),
    "LibreTranslate": (
        "/translate", lambda lines, target: {"q": lines, "source": "auto", "target": target},
        lambda answer: answer["translatedText"],
    ),
    "OpenAI": (
        "/v1/chat/completions", lambda lines, target: {"messages": [{"role": "user", "content": "\n".join(lines)}]},
        lambda answer: answer["choices"][0]["message"]["content"].split("\n"),
    ),
}  # fmt: skip


@dataclass
class Load:
    """What clients send, `most` sentences at once, and what came back. `target`: the language of
    the service, for requests in the forms of other services; empty: there are none. `pause`: seconds between two
    requests of a client, on average. `lines`: right ones so far."""

    source: Documents
    expected: Documents
    most: int
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    target: str = ""
    pause: float = 0.0
    lines: int = 0

    async def ask(self, server: Server, chosen: list[int], kind: str, rng: random.Random) -> None:
        """One request of one kind; its answer is compared."""
        if kind == "other form":
            await self.ask_other(server, chosen[0], rng)
            return
        body = json.dumps({"documents": [self.source[n] for n in chosen]}).encode()
        wanted = [self.expected[n] for n in chosen]
        begun = time.monotonic()
        if kind == "leaves":
            await server.post(body, leave=rng.uniform(0.01, 0.5))
        elif kind == "nonsense":
            status, answer = await server.post(body[: rng.randrange(1, len(body))])
            self.judge(kind, status == 400 and b"invalid_request" in answer, status)
        elif kind == "streams":
            status, answer = await server.post(body, accept="application/x-ndjson")
            self.judge(kind, status == 200 and _joined(answer, wanted) == wanted, status, wanted)
        else:
            status, answer = await server.post(body, pause=0.2 if kind == "slow" else 0.0)
            if status == 503:
                self.judge("told to come again", b"queue_full" in answer, status)
                return
            self.judge(kind, status == 200 and json.loads(answer)["documents"] == wanted, status, wanted)
        self.counts[kind] += 1
        if kind in ("whole", "streams"):
            sentences = sum(map(len, wanted))
            size = "1-10" if sentences <= 10 else "11-100" if sentences <= 100 else "over 100"
            self.seconds.setdefault(size, []).append(time.monotonic() - begun)

    async def ask_other(self, server: Server, number: int, rng: random.Random) -> None:
        """A document in the form of another service; only DeepL's can say that a text is one sentence."""
        source, wanted = self.source[number], self.expected[number]
        name = "DeepL" if any(map(SEVERAL.search, source)) else rng.choice(sorted(OTHERS))
        path, body, answered = OTHERS[name]
        status, answer = await server.post(json.dumps(body(source, self.target)).encode(), path=path)
        if status in (429, 503):
            self.judge("told to come again", True, status)
            return
        self.judge(name, status == 200 and answered(json.loads(answer)) == wanted, status, [wanted])
        self.counts[name] += 1

    def judge(self, kind: str, right: bool, status: int, wanted: Documents = ()) -> None:
        """Count an answer that is not right, or the lines of one that is."""
        if not right:
            self.counts[f"WRONG {kind}, status {status}"] += 1
        elif kind == "told to come again":
            self.counts[kind] += 1
        else:
            self.lines += sum(map(len, wanted))

    def choose(self, rng: random.Random) -> list[int]:
        """One document or several, of so many sentences at most."""
        first, left = rng.randrange(len(self.source)), self.most
        chosen = [first]
        for number in range(first + 1, first + rng.choice([1, 1, 1, 1, 2, 3, 6])):
            left -= len(self.source[chosen[-1]])
            if len(self.source[number % len(self.source)]) > left:
                break
            chosen.append(number % len(self.source))
        return chosen

    async def client(self, server: Server, number: int, until: float) -> None:
        """Requests one after the other."""
        rng = random.Random(number)
        kinds = ["whole"] * 12 + ["streams"] * 4 + ["slow", "leaves", "leaves", "nonsense"]
        kinds += ["other form"] * (10 if self.target else 0)
        while time.monotonic() < until:
            try:
                await asyncio.sleep(rng.expovariate(1 / self.pause) if self.pause else 0)
                await self.ask(server, self.choose(rng), rng.choice(kinds), rng)
            except (OSError, ValueError, KeyError, IndexError, asyncio.IncompleteReadError) as error:
                self.counts[f"WRONG lost: {type(error).__name__} {error}"] += 1


def _joined(answer: bytes, wanted: Documents) -> Documents:
    *lines, last = map(json.loads, answer.splitlines())
    translations: Documents = [[""] * len(document) for document in wanted]
    for line in lines:
        translations[line["document"]][line["sentence"]] = line["text"]
    if last != {"done": True} or len(lines) != sum(map(len, wanted)):
        raise ValueError(f"a stream that ends with {last}")
    return translations
