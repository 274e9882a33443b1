"""Writing of aligned sentences as a translation memory or a corpus, completely or not at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from docnmt.runtime.errors import UserError
from docnmt.runtime.files import check_new, write_text
from docnmt.runtime.version import __version__

#: Characters that XML cannot represent.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

#: The pairs of texts of each document.
Pairs = Sequence[Sequence[tuple[str, str]]]


def files_of(output: Path, languages: tuple[str, str]) -> list[Path]:
    """Return the paths of the files to write."""
    if output.suffix.lower() == ".tmx":
        return [output]
    return [output.parent / f"{output.name}.{language}" for language in languages]


def write_pairs(output: Path, pairs: Pairs, languages: tuple[str, str], *, overwrite: bool) -> None:
    """Write OUT.tmx, or OUT.SRC and OUT.TGT: one pair per line, an empty line between documents.

    Raises:
        UserError: a file exists, cannot be written, or a text has characters that XML cannot represent.
    """
    files = files_of(output, languages)
    for file in files:
        check_new(file, overwrite=overwrite)
    if len(files) == 1:
        write_text(files[0], tmx(pairs, languages))
        return
    for side, file in enumerate(files):
        write_text(file, "\n".join("".join(f"{pair[side]}\n" for pair in own) for own in pairs if own))


def tmx(pairs: Pairs, languages: tuple[str, str]) -> str:
    """Return a translation memory in TMX 1.4.

    Raises:
        UserError: a text has characters that XML cannot represent.
    """
    for text in (text for own in pairs for pair in own for text in pair):
        if found := _NO_XML.search(text):
            raise UserError(f"'{text[:40]}': has the character U+{ord(found[0]):04X}, which no XML file can; remove it")
    units = "".join(_unit(pair, languages) for own in pairs for pair in own)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4">
  <header creationtool="docnmt-align" creationtoolversion={quoteattr(__version__)} segtype="sentence" o-tmf="docnmt" \
adminlang="en" srclang={quoteattr(languages[0])} datatype="plaintext"/>
  <body>
{units}  </body>
</tmx>
"""


def _unit(pair: tuple[str, str], languages: tuple[str, str]) -> str:
    variants = "".join(
        f"      <tuv xml:lang={quoteattr(language)}><seg>{escape(text)}</seg></tuv>\n"
        for language, text in zip(languages, pair, strict=True)
    )
    return f"    <tu>\n{variants}    </tu>\n"
