"""docnmt-embed: sentence vectors or binary codes of text, and the nearest of them."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from docnmt import builtin  # noqa: F401  (registers every component)
from docnmt.cli.command import Command
from docnmt.cli.given import Given
from docnmt.config import Section, option
from docnmt.files import check_new

COMMAND = Command(
    "docnmt-embed",
    """Encode text, a sentence a line, with a trained sentence encoder (task nli: inferlite and others).
--output writes a row a line to an .npy file: vectors in single precision, or with --codes packed binary codes, eight
bits a byte (numpy.unpackbits). Text is read as it comes, so there may be millions of lines. --search finds the nearest
rows of such a file for each line: query, rank, cosine or Hamming distance, row (all from 0) and, with --texts, that
row's line; a terminal is answered line by line. --gates draws how much each embedding type counts for each word.""",
    """
docnmt-embed --path runs/inferlite --input corpus.txt --output corpus.npy
docnmt-embed --path runs/inferlite-hash --codes --output codes.npy < corpus.txt
docnmt-embed --path runs/inferlite-hash --search codes.npy --texts corpus.txt --top 5 < queries.txt
docnmt-embed --path runs/inferlite --gates gates.png < three-sentences.txt
""",
)


@dataclass(frozen=True)
class EmbedConfig:
    """What to do with the text."""

    path: str = option(dataclasses.MISSING, "trained model: a checkpoint, or a --save-dir (its best)", metavar="CKPT")
    input: str | None = option(None, "text, a sentence a line [stdin]", metavar="FILE")
    output: str | None = option(None, "write a row a line there", metavar="FILE.npy")
    codes: bool = option(False, "write binary codes (the model learned them with --hash-bits)")
    search: str | None = option(
        None, "find each line's nearest rows in this file of vectors or codes", metavar="FILE.npy"
    )
    texts: str | None = option(
        None, "with --search: the lines that the file's rows stand for, to print them", metavar="FILE"
    )
    top: int = option(10, "with --search: how many to find")
    backend: Literal["numpy", "faiss"] = option(
        "numpy", "with --search: numpy reads the file block by block; faiss copies it into memory and uses all threads"
    )
    gates: str | None = option(None, "draw the gates of each word, for a few lines", metavar="FILE.png")
    max_tokens: int = option(4096, "words that are encoded at once")
    device: str = option("cpu", "cpu, cuda, cuda:1 …", metavar="NAME")
    overwrite: bool = option(False, "replace an existing output file")

    def problems(self) -> list[str]:
        """Contradictions between the values."""
        chosen = [name for name in ("output", "search", "gates") if getattr(self, name)]
        found = (
            []
            if len(chosen) == 1
            else [f"give one of --output, --search and --gates, got {', '.join(chosen) or 'none'}"]
        )
        found += [f"--{n.replace('_', '-')}: must be at least 1" for n in ("top", "max_tokens") if getattr(self, n) < 1]
        if self.texts and not self.search:
            found.append("--texts has no effect without --search")
        if self.codes and not self.output:
            found.append("--codes has no effect without --output; --search sees what its file holds")
        return found


@COMMAND.main
def main(given: Given) -> None:
    """Parse, load the model, then write, search or draw."""
    parsed = COMMAND.resolve(given, [Section("embed", EmbedConfig)])
    config: EmbedConfig = parsed["embed"]
    for name in (config.output, config.gates):
        if name:
            check_new(Path(name), overwrite=config.overwrite)
    from docnmt.runtime import pick_device, tune
    from docnmt.sentence_vectors import commands
    from docnmt.sentence_vectors.encoder import SentenceEncoder

    print(tune(), file=sys.stderr)
    encoder = SentenceEncoder.load(config.path, device=pick_device(config.device), max_tokens=config.max_tokens)
    with _lines(config.input) as lines:
        if config.output:
            commands.write(encoder, lines, Path(config.output), codes=config.codes)
        elif config.search:
            texts = Path(config.texts) if config.texts else None
            at_once = 1 if config.input is None and sys.stdin.isatty() else commands.QUERIES
            commands.search(
                encoder, lines, Path(config.search), texts=texts, top=config.top, backend=config.backend,
                out=sys.stdout, at_once=at_once,
            )  # fmt: skip
        elif config.gates:
            commands.draw(encoder, lines, Path(config.gates))


@contextlib.contextmanager
def _lines(name: str | None) -> Iterator[Iterator[str]]:
    from docnmt.sentence_vectors.stream import open_lines, read_lines

    if name is None:
        yield read_lines(sys.stdin.buffer, "stdin")
    else:
        with open_lines(Path(name)) as lines:
            yield lines


if __name__ == "__main__":
    sys.exit(main())
