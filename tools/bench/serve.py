"""docnmt-serve under load: nothing lost, mixed up or different from docnmt-translate; memory, latency, throughput.

    python tools/bench/serve.py --path CKPT --text FILE [--minutes 10] [--clients 64] [-- options of both commands]

FILE is a corpus, a sentence a line with empty lines between documents. docnmt-translate says how fast it is; then as
many documents are taken as it translates in a tenth of the minutes, long ones divided, so that what all clients ask for
at once takes a minute at most. Its translations are what is expected.

CLIENTS send documents for so many minutes, one request after the other: most whole, some as streams, some byte by byte,
some that go away or send nonsense; a third in the forms of DeepL, LibreTranslate and OpenAI, a document each. Every
answer is compared. Nothing is sent after that; what is still at work is waited for, for at most --patience seconds, and
told apart. Then each document is sent once (throughput, by wall clock
and by the processor time of the service), the queue is filled, the service is killed and started again. All takes about
1.4 times the minutes, and the time to start both commands a few times.

--minutely writes lines, processor seconds and memory of each minute, and the same of the command, which runs on all
documents before, in the middle and at the end.

The status is 1 if anything was lost or wrong, or if memory grew by more than 10 % from the second quarter to the last,
in five minutes or more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Coroutine, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from clients import Documents, Load
from service import Server

#: Seconds that all clients' requests together take at most, by the command's speed.
AT_ONCE = 60
say = partial(print, flush=True)
#: What goes on beside the clients.
Beside = Coroutine[Any, Any, None]


def divided(text: str, most: int) -> Documents:
    """The documents of a corpus; those of more sentences than that become several."""
    documents = [document.split("\n") for document in re.split(r"\n\n+", text.strip("\n")) if document]
    return [document[n : n + most] for document in documents for n in range(0, len(document), most)]


def first(documents: Documents, sentences: int) -> Documents:
    """As many documents as have so many sentences together, at least one."""
    before = np.cumsum([0, *map(len, documents)])
    return documents[: max(1, int(np.searchsorted(before, sentences, "right")) - 1)]


def command(options: list[str], documents: Documents) -> tuple[Documents, float, float]:
    """What docnmt-translate makes of documents, and its seconds by the clock and of the processor."""
    text = "\n\n".join("\n".join(document) for document in documents) + "\n"
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    words = [sys.executable, "-m", "docnmt.cli.translate", *options, "--input-format", "corpus"]
    done = subprocess.run(words, input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begun
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = iter(done.stdout.split("\n"))
    translated = [[next(lines) for _ in document] + [next(lines)] for document in documents]  # and what parts them
    return [document[:-1] for document in translated], seconds, used


async def watch(server: Server, samples: list[float]) -> None:
    """Memory, every other second."""
    while True:
        samples.append(server.memory())
        await asyncio.sleep(2)


async def write_minutes(server: Server, load: Load, out: TextIO) -> None:
    """A line a minute: lines translated, processor seconds, MB (PSS, and resident)."""
    begun, lines, seconds = time.monotonic(), load.lines, server.seconds()
    for minute in count(1):
        await asyncio.sleep(begun + 60 * minute - time.monotonic())
        was, lines, before, seconds = lines, load.lines, seconds, server.seconds()
        row = [minute, lines - was, round(seconds - before, 2), round(server.memory(), 1), round(server.resident())]
        print(json.dumps(row), file=out, flush=True)


async def write_command(options: list[str], load: Load, start: float, out: TextIO, wait: float) -> None:
    """Lines and processor seconds of the command for all documents, without the seconds of its start."""
    await asyncio.sleep(wait)
    _, _, used = await asyncio.to_thread(command, options, load.source)
    print(json.dumps(["command", sum(map(len, load.source)), round(used - start, 2)]), file=out, flush=True)


async def storm(
    server: Server, load: Load, clients: int, minutes: float, patience: float, beside: Sequence[Beside] = ()
) -> list[float]:
    """All clients for so long, and what else is to go on; the service's memory meanwhile."""
    samples: list[float] = []
    watching = [*map(asyncio.create_task, (watch(server, samples), *beside))]
    until = time.monotonic() + 60 * minutes
    working = [asyncio.create_task(load.client(server, number, until)) for number in range(clients)]
    _, late = await asyncio.wait(working, timeout=60 * minutes + patience)
    for task in (*late, *watching):
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    failed = await asyncio.gather(*watching, return_exceptions=True)
    for error in failed:
        if not isinstance(error, (asyncio.CancelledError, type(None))):
            raise error
    if late:
        load.counts[f"still at work {patience:g} s after the end"] = len(late)
    return samples


async def once(server: Server, load: Load, clients: int, documents: int) -> None:
    """So many documents, each once, by as many clients as there are."""
    waiting = list(range(documents))[::-1]

    async def work() -> None:
        while waiting:
            await load.ask(server, [waiting.pop()], "whole", random.Random(0))

    await asyncio.gather(*(work() for _ in range(clients)))


def report(load: Load, samples: list[float], minutes: float) -> None:
    """What came back, how long it took, and the memory, which is judged in runs that are long enough."""
    say(", ".join(f"{kind} {count}" for kind, count in sorted(load.counts.items())))
    for size, seconds in sorted(load.seconds.items()):
        p50, p95, p99 = np.percentile(seconds, [50, 95, 99])
        say(f"{size} sentences: {len(seconds)} answers, p50 {p50:.2f} s, p95 {p95:.2f} s, p99 {p99:.2f} s")
    quarters = [max(part) for part in np.array_split(samples, 4) if len(part)]
    say("MB (PSS), largest of each quarter: " + ", ".join(f"{most:.0f}" for most in quarters))
    if minutes >= 5 and quarters[-1] > 1.1 * quarters[1]:
        load.counts["WRONG memory grew"] += 1


def throughput(server: Server, load: Load, clients: int, command_took: tuple[float, float]) -> None:
    """The service against the command, start-up of the command left out."""
    before, begun = server.seconds(), time.monotonic()
    asyncio.run(once(server, load, clients, len(load.source)))
    ours, clock = server.seconds() - before, time.monotonic() - begun
    sentences = sum(map(len, load.source))
    wall, used = command_took
    say(f"{sentences} sentences: command {sentences / wall:.1f}/s, service {sentences / clock:.1f}/s, "
        f"{100 * wall / clock:.0f} %; by processor time {100 * used / ours:.0f} %")  # fmt: skip


async def crowd(server: Server, load: Load, clients: int) -> None:
    """One request of each client at once."""
    await asyncio.gather(*(load.ask(server, [n % len(load.source)], "whole", random.Random(n)) for n in range(clients)))


async def killed(server: Server, load: Load) -> None:
    """Kill the service while it works."""
    body = json.dumps({"documents": load.source}).encode()
    pending = [asyncio.create_task(server.post(body)) for _ in range(8)]
    await asyncio.sleep(1)
    server.stop(9)
    lost = await asyncio.gather(*pending, return_exceptions=True)
    say(f"kill -9: {sum(isinstance(outcome, BaseException) for outcome in lost)} of {len(lost)} clients saw an error")


def prepared(
    options: list[str], text: str, minutes: float, clients: int, most: int | None
) -> tuple[Load, tuple[float, float], float]:
    """What is sent and expected, the command's seconds for it without its start, by the clock and the processor, and
    the processor seconds of that start."""
    _, wall0, used0 = command(options, [])
    sample = first(divided(text, 50), 50)
    _, wall, _ = command(options, sample)
    speed = sum(map(len, sample)) / max(wall - wall0, 0.1)
    most = most or max(10, int(speed * AT_ONCE / clients))
    source = first(divided(text, most), max(64, int(speed * 6 * minutes)))
    expected, wall, used = command(options, source)
    say(f"{sum(map(len, source))} sentences in {len(source)} documents of up to {most}")
    return Load(source, expected, most), (max(wall - wall0, 0.1), max(used - used0, 0.1)), used0


def stormed(server: Server, load: Load, options: argparse.Namespace, shared: list[str], start: float) -> list[float]:
    """All clients, and the file of minutes; the service's memory meanwhile."""
    beside: list[Beside] = []
    with options.minutely.open("a") if options.minutely else nullcontext() as out:
        if out:
            beside.append(write_minutes(server, load, out))
            beside.append(write_command(shared, load, start, out, 30 * options.minutes))
        samples = asyncio.run(storm(server, load, options.clients, options.minutes, options.patience, beside))
        if out:
            asyncio.run(write_command(shared, load, start, out, 0))
    return samples


def break_it(server: Server, load: Load, clients: int) -> None:
    """Fill the queue, kill the service while it works, and start it again."""
    server.stop()
    server.start("--queue-length", "8")
    before, many = load.counts["told to come again"], max(clients, 64)
    asyncio.run(crowd(server, load, many))
    say(f"a queue of 8: {load.counts['told to come again'] - before} of {many} told to come again")
    asyncio.run(killed(server, load))
    say(f"started again in {server.start():.1f} s")
    asyncio.run(once(server, load, 8, min(8, len(load.source))))


def main() -> int:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", required=True, metavar="CKPT")
    parser.add_argument("--text", required=True, type=Path, metavar="FILE")
    parser.add_argument("--minutes", type=float, default=10.0, help="that clients send [10]")
    parser.add_argument("--clients", type=int, default=64, help="[64]")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds for what is at work at the end [60]")
    parser.add_argument("--most", type=int, help="sentences of a request [what all ask for takes a minute]")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between a client's requests, on average [0]")
    parser.add_argument("--minutely", type=Path, metavar="FILE", help="for a line of each minute")
    parser.add_argument("options", nargs="*", help="of docnmt-translate and docnmt-serve, behind --")
    options = parser.parse_args()
    shared = ["--path", options.path, *options.options]
    text = options.text.read_text(encoding="utf-8")
    load, took, start = prepared(shared, text, options.minutes, options.clients, options.most)
    load.pause = options.pause
    server = Server(shared)
    say(f"started in {server.start():.1f} s")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/openapi.json") as answer:
            load.target = json.load(answer)["info"]["x-languages"]["target"]
        report(load, stormed(server, load, options, shared, start), options.minutes)
        throughput(server, load, options.clients, took)
        break_it(server, load, options.clients)
    finally:
        server.stop()
    wrong = {kind: count for kind, count in load.counts.items() if kind.startswith("WRONG")}
    say(f"wrong or lost: {wrong or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
