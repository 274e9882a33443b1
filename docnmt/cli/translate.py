"""The command docnmt-translate: translate documents, or stdin to stdout."""

from __future__ import annotations

import sys

from docnmt.apps.options import TranslateConfig
from docnmt.cli.command import Command, Given
from docnmt.cli.generation import check_one_translation, parse
from docnmt.runtime.system import UserError

COMMAND = Command(
    "docnmt-translate",
    """Translate documents (text, Markdown, HTML, DOCX, PPTX, XLSX, ODT, EPUB, XLIFF, PO, TMX, JSON, YAML, SRT, VTT …)
into documents of the same kind: structure, inline formats, code, links and placeholders stay, and so do the
translations that XLIFF, PO and TMX have. Without FILE, translate stdin to stdout. stdin is one document of raw
text in UTF-8: each line is split into sentences, the translation of a line is a line, and blank lines stay. With
--input-format corpus a line is a sentence and an empty line separates documents; with jsonl or tsv each row comes back
with its translation.
With --given FILE, lines that have a translation keep it.""",
    """
docnmt-translate letter.docx -o brief.docx --path runs/bible
docnmt-translate docs/guide/*.md README.html -o translated/ --path runs/bible
docnmt-translate messages.po --path runs/bible > de.po
docnmt-translate --path runs/bible < document.txt > translation.txt
docnmt-translate --path runs/bible --input-format corpus < test.en > test.de
docnmt-translate --path runs/bible --given half.de < document.txt > whole.de
docnmt-translate --path runs/bible --input-format jsonl < wmt24pp.jsonl > translated.jsonl
docnmt-translate --path runs/bible --glossary terms.tsv --explain read.html < document.txt
docnmt-translate --path runs/a:runs/b --beam 8 --device cuda < document.txt
""",
)


@COMMAND.main
def main(given: Given) -> None:
    """Parse the options and translate."""
    config = parse(COMMAND, given, TranslateConfig)
    check_one_translation(config)
    sections = (config[name] for name in ("command", "models", "memory", "generation", "search"))
    if config["command"].files:
        from docnmt.apps.commands.translate import translate_files

        if sys.stdout is None:
            raise UserError("stdout is closed; expected: docnmt-translate document.docx -o translation.docx ...")
        return translate_files(sys.stdout, *sections)
    from docnmt.apps.commands.translate import translate_stream

    if sys.stdin is None or sys.stdout is None:
        raise UserError("stdin or stdout is closed; expected: docnmt-translate ... < document.txt > translation.txt")
    return translate_stream(sys.stdin.buffer, sys.stdout, *sections)


if __name__ == "__main__":
    sys.exit(main())
