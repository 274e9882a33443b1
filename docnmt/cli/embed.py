"""docnmt-embed: sentence vectors or binary codes of text, and the nearest of them."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from docnmt.cli import command as cli
from docnmt.config import Section
from docnmt.files import check_new
from docnmt.sentence_vectors.config import EmbedConfig

DESCRIPTION = """Encode text, a sentence a line, with a trained sentence encoder (task nli: inferlite and others).
--output writes a row a line to an .npy file: vectors in single precision, or with --codes packed binary codes, eight
bits a byte (numpy.unpackbits). Text is read as it comes, so there may be millions of lines. --search finds the nearest
rows of such a file for each line: query, rank, cosine or Hamming distance, row (all from 0) and, with --texts, that
row's line; a terminal is answered line by line. --gates draws how much each embedding type counts for each word."""

EXAMPLES = (
    "docnmt-embed --path runs/inferlite --input corpus.txt --output corpus.npy",
    "docnmt-embed --path runs/inferlite-hash --codes --output codes.npy < corpus.txt",
    "docnmt-embed --path runs/inferlite-hash --search codes.npy --texts corpus.txt --top 5 < queries.txt",
    "docnmt-embed --path runs/inferlite --gates gates.png < three-sentences.txt",
)


def body(argv: list[str]) -> int:
    """Parse, load the model, then write, search or draw."""
    parsed = cli.Command("docnmt-embed", DESCRIPTION, EXAMPLES).parse(argv, [Section("embed", EmbedConfig)])
    config: EmbedConfig = parsed["embed"]
    for name in (config.output, config.gates):
        if name:
            check_new(Path(name), overwrite=config.overwrite)
    from docnmt.runtime import tune
    from docnmt.sentence_vectors.embed import embed

    print(tune(), file=sys.stderr)
    embed(config, sys.stdout)
    return 0


#: Entry point: `main(argv=None)` returns the exit status.
main = partial(cli.run, "docnmt-embed", body)

if __name__ == "__main__":
    sys.exit(main())
