"""The drawings of reference/architecture.md, from the package's imports and files.

`python docs/drawings.py` writes them anew.

`packages.svg` is a matrix: the packages in the order of the table in architecture.md, a dot where one imports the
other, the larger the more often. `batch.svg` is the way of a batch and of a document; a file that is not there is an
error.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "docnmt"

#: Rooms whose parts have rows of their own; an import of the room itself means the first.
PARTS = {
    room: [main, *(path.stem for path in sorted((PACKAGE / room).iterdir()) if path.stem != "__pycache__")]
    for room, main in (
        ("runtime", "runtime/tuning"),
        ("registry", "registry/registry"),
        ("core", "core/__init__"),
        ("apps", "apps/__init__"),
        ("other_tasks", "other_tasks/__init__"),
    )
}

#: What an import may name whole, with parts of it behind `import`.
WHOLE = {"docnmt", *(f"docnmt.{room}" for room in PARTS)}

STYLE = """<style>
.card { fill: #fbfaf7 } .box { fill: #e8eef5; stroke: #5b7ea4 } .text { fill: #1c2733 } .note { fill: #55616d }
.line { stroke: #7d8b99; fill: none } .head { fill: #5b7ea4 } .wrong { fill: #c43b2f } .thin { stroke-width: 0.3 }
text { font-family: system-ui, sans-serif; font-size: 13px }
.code { font-family: ui-monospace, monospace; font-size: 12px }
@media (prefers-color-scheme: dark) {
.card { fill: #16191d } .box { fill: #22303f; stroke: #6f95bf } .text { fill: #e7ecf1 } .note { fill: #a7b2bd }
.line { stroke: #7f8d9b } .head { fill: #86abd3 } }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path class="head" d="M0 0 L8 4 L0 8 Z"/></marker></defs>"""

#: What happens to a batch in training and to a document in translating: what, where, and what comes out.
TRAINING = (
    ("read, check, cut into subwords", "core/preprocess.py", "a folder of arrays"),
    ("map the arrays into memory", "core/corpus.py", "ParallelCorpus"),
    ("what the model reads and writes at once", "core/batch.py", "Units (U,)"),
    ("which units meet in a batch", "core/batch.py", "plan of (seed, epoch)"),
    ("gather tokens and labels", "core/batch.py", "TranslationBatch"),
    ("encode: embeddings, layers, context", "core/models/encoder_decoder.py", "states (T_source, d)"),
    ("decode the whole target at once", "core/models/encoder_decoder.py", "features (T_target, d)"),
    ("features, output weights, labels", "core/training/criterions.py", "summed loss, tokens"),
    ("gradient, clipping, step, checkpoint", "core/training/trainer.py", "checkpoint_last"),
)
TRANSLATING = (
    ("sentences and their structure", "core/lines.py", "documents"),
    ("the same corpus, from lines", "core/corpus.py", "ParallelCorpus"),
    ("what the model reads and writes at once", "core/batch.py", "Units (U,)"),
    ("units by the model's plan, packed", "core/search/scheduler.py", "Job"),
    ("encode once a document", "core/models/encoder_decoder.py", "Memory"),
    ("a slot for each text that is ready", "core/search/scheduler.py", "DecoderState"),
    ("one token a step, every row", "core/models/encoder_decoder.py", "logits (R, V)"),
    ("the best hypotheses of each slot", "core/search/generators.py", "tokens, scores"),
    ("text, in the order of the input", "core/search/translate.py", "translations"),
)


def rooms(page: str) -> list[str]:
    """The rooms in the first table of architecture.md, top first."""
    table = page.partition("| room |")[2].partition("\n\n")[0].splitlines()[2:]
    return [re.findall(r"`([^`]+)`", line)[0].strip("/").removesuffix(".py") for line in table]


def rows(page: str) -> list[tuple[list[str], str]]:
    """The lines of the table of modules in architecture.md, top first: names, and whether they import torch."""
    table = page.partition("| module |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return [([name.strip("/") for name in re.findall(r"`([^`]+)`", first)], last) for first, *_, last in cells]


@cache
def imports(package: Path) -> list[tuple[str, str]]:
    """Every import inside the package, those inside functions too: the file, and the module of `docnmt` it names.

    Imports that only type checkers see are left out.
    """
    found = []
    for path in sorted(package.rglob("*.py")):
        here = str(path.relative_to(package))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module in WHOLE:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            else:
                continue
            found += [(here, name.split(".", 1)[1]) for name in names if name.startswith(package.name + ".")]
    return found


def room(place: str) -> str:
    """The row of the table to which a file or a dotted name belongs: `core/data`, `layout` …"""
    parts = re.split(r"[/.]", place.removesuffix(".py"))
    if parts[0] not in PARTS:
        return parts[0]
    return "/".join(parts[:2]) if len(parts) > 1 and parts[1] in PARTS[parts[0]] else PARTS[parts[0]][0]


def packages(page: str) -> str:
    """The drawing of the packages: in each row, a dot under every package that this one imports."""
    names = [name for row, _ in rows(page) for name in row]
    count = Counter((room(a), room(b)) for a, b in imports(PACKAGE))
    left, top, cell = 240, 200, 21
    end, shapes = left + cell * len(names), []
    for i, name in enumerate(names):
        x, y = left + cell * i, top + cell * i
        shapes.append(text(left - 10, y + 15, name, "text code", "end"))
        turned = f'transform="rotate(-60 {x + 14} {top - 8})"'
        shapes.append(text(x + 14, top - 8, name, "text code", "start").replace("<text", f"<text {turned}"))
        shapes.append(f'<rect class="box" x="{x}" y="{y}" width="{cell}" height="{cell}"/>')
        shapes.append(f'<path class="line thin" d="M{left} {y} H{end} M{x} {top} V{top + cell * len(names)}"/>')
        for k, other in enumerate(names):
            if k != i and count[name, other]:
                radius = min(8.0, 2.5 + count[name, other] ** 0.5)
                place = f'cx="{left + cell * k + cell / 2}" cy="{y + cell / 2}" r="{radius:.1f}"'
                shapes.append(f'<circle class="{"head" if k < i else "wrong"}" {place}/>')
    height = top + cell * len(names) + 20
    return drawing(end + 50, height, "Which package imports which: all dots are below the diagonal", shapes)


def batch() -> str:
    """The drawing of a batch's and a document's way."""
    shapes = []
    for x, title, steps in ((20, "A batch, from text to loss", TRAINING), (430, "A document, to text", TRANSLATING)):
        shapes.append(text(x, 32, title, "text", "start"))
        for i, (what, where, result) in enumerate(steps):
            if not (PACKAGE / where).exists():
                raise FileNotFoundError(f"docs/drawings.py: docnmt/{where} is not there; where is this now: {what}?")
            y = 48 + 80 * i
            shapes.append(f'<rect class="box" x="{x}" y="{y}" width="330" height="46" rx="6"/>')
            shapes += [text(x + 12, y + 19, what, "text", "start"), text(x + 12, y + 37, where, "note code", "start")]
            end = ' marker-end="url(#head)"' if i + 1 < len(steps) else ""
            shapes.append(f'<path class="line" d="M{x + 40} {y + 46} V{y + 78}"{end}/>')
            shapes.append(text(x + 54, y + 67, result, "note", "start"))
    title = "The way of a batch in training and of a document in translating"
    return drawing(780, 48 + 80 * len(TRAINING), title, shapes)


def text(x: float, y: float, what: str, style: str, anchor: str) -> str:
    """A line of text."""
    return f'<text class="{style}" x="{x:.0f}" y="{y}" text-anchor="{anchor}">{escape(what)}</text>'


def drawing(width: int, height: int, title: str, shapes: list[str]) -> str:
    """An SVG file on a ground of its own, for light and dark pages."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    ground = f'<rect class="card" width="{width}" height="{height}" rx="10"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE, ground, *shapes, "</svg>\n"])


def drawings() -> dict[str, str]:
    """File name → content, of both."""
    page = (DOCS / "reference" / "architecture.md").read_text(encoding="utf-8")
    return {"packages.svg": packages(page), "batch.svg": batch()}


if __name__ == "__main__":
    for file, content in drawings().items():
        (DOCS / "pictures" / file).write_text(content, encoding="utf-8")
