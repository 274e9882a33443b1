"""The command docnmt-embed: encode text as sentence vectors or binary codes."""

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
--output gets a row a line, an .npy file: vectors in single precision, or with --codes packed binary codes, eight
bits a byte (numpy.unpackbits). Text is read as it comes, so there may be millions of lines.""",
    """
docnmt-embed --path runs/inferlite --input corpus.txt --output corpus.npy
docnmt-embed --path runs/inferlite-hash --codes --output codes.npy < corpus.txt
""",
)


@COMMAND.main
def main(given: Given) -> None:
    """Parse the options, load the model, then write."""
    config: EmbedConfig = COMMAND.resolve(given, [Section("embed", EmbedConfig)])["embed"]
    check_new(Path(config.output), overwrite=config.overwrite)
    from docnmt.other_tasks.sentence_vectors.embed import embed
    from docnmt.runtime.device import tune
    from docnmt.runtime.jobs import joined

    with joined():
        print(tune(), file=sys.stderr)
        embed(config)


if __name__ == "__main__":
    sys.exit(main())
