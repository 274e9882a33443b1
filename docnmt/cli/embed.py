"""The command docnmt-embed: encode text as sentence vectors or binary codes, and search for the nearest."""

from __future__ import annotations

import sys
from pathlib import Path

from docnmt.cli.command import Command, Given
from docnmt.options import Section
from docnmt.other_tasks.options import EmbedConfig
from docnmt.runtime.system import check_new

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


@COMMAND.main
def main(given: Given) -> None:
    """Parse the options, load the model, then write, search or draw."""
    config: EmbedConfig = COMMAND.resolve(given, [Section("embed", EmbedConfig)])["embed"]
    for name in (config.output, config.gates):
        if name:
            check_new(Path(name), overwrite=config.overwrite)
    from docnmt.other_tasks.sentence_vectors.embed import embed
    from docnmt.runtime.device import tune
    from docnmt.runtime.jobs import joined

    with joined():
        print(tune(), file=sys.stderr)
        embed(config, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
