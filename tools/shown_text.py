"""What readers see of a document: a text but for its case and white space, and how many pages LibreOffice shows."""

from __future__ import annotations

import html
import re
import subprocess
import tempfile
from pathlib import Path


def plain(content: bytes) -> str:
    """A text without case, references, escapes of Markdown and white space; languages are not compared."""
    text = html.unescape(decoded(content)).lower().replace("\\n", " ")
    text = re.sub(r"\\u([0-9a-f]{4})", lambda number: chr(int(number[1], 16)), text)
    text = re.sub(r"<!--.*?-->|\{/\*.*?\*/\}", "", text, flags=re.DOTALL)  # they do not show
    text = re.sub(r"^[ \t>]+", "", text, flags=re.MULTILINE)  # lines of a quotation are joined
    text = re.sub(r"\]\[[^\]]*\]", "]", text)  # the name of a link that was its text
    text = re.sub(r"\s+\](\([^()\s]*\))?", r"]\1 ", text)  # a space at its end stands behind it
    text = re.sub(r"(?<=\))\s(?=[,.;:])", "", text)
    text = re.sub(r"\*\*|`|\[|\](\([^()\s]*\))?", "", text)  # which of two equal words is code or a link, a model says
    text = re.sub(r"\s*(?:<[^<>]*>\s*)+", one_space, text)
    text = re.sub(r"(?:xml:)?lang=[\"']?[\w-]+[\"']?|(?:charset|content)=[\"']?[\w-]+[\"']?", "", text)
    return " ".join(re.sub("[\\\\\u00ad\u200b\u2060\ufeff]+", "", text).split())


def decoded(content: bytes) -> str:
    """A text in whatever encoding it is."""
    try:
        return content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def one_space(tags: re.Match[str]) -> str:
    """Tags in a row with at most one space around them, as browsers show them; none beside a line break."""
    spaces = re.search(r"\s", re.sub("<[^<>]*>", "", tags[0])) is not None and not re.search("</?br", tags[0])
    return re.sub(r"(?<=>)\s+|\s+(?=<)", "", tags[0].strip()) + " " * spaces


def pages(content: bytes, kind: str) -> int:
    """How many pages LibreOffice shows; 0 if it cannot open the text."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"text.{kind}"
        source.write_bytes(content)
        command = ["soffice", f"-env:UserInstallation=file://{folder}/profile", "--headless", "--convert-to", "pdf"]
        subprocess.run([*command, "--outdir", folder, str(source)], capture_output=True, check=False, timeout=120)
        made = source.with_suffix(".pdf")
        return len(re.findall(rb"/Type\s*/Page\b", made.read_bytes())) if made.exists() else 0
