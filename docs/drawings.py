"""The drawing of reference/architecture.md: the way of a batch and of a document, with the file that takes each step.

`python docs/drawings.py` writes it anew; a file that is not there is an error.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "docnmt"

STYLE = """<style>
.card { fill: #fbfaf7 } .box { fill: #e8eef5; stroke: #5b7ea4 } .text { fill: #1c2733 } .note { fill: #55616d }
.line { stroke: #7d8b99; fill: none } .head { fill: #5b7ea4 }
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
    ("gradient, clipping, step", "core/training/update.py", "weights"),
)
TRANSLATING = (
    ("sentences and their structure", "core/read_corpus.py", "documents"),
    ("the same corpus, from lines", "core/corpus.py", "ParallelCorpus"),
    ("what the model reads and writes at once", "core/batch.py", "Units (U,)"),
    ("units by the model's plan, packed", "core/search/scheduler.py", "Job"),
    ("encode once a document", "core/models/encoder_decoder.py", "Memory"),
    ("a slot for each text that is ready", "core/search/scheduler.py", "DecoderState"),
    ("one token a step, every row", "core/models/encoder_decoder.py", "logits (R, V)"),
    ("the best hypotheses of each slot", "core/search/generators.py", "tokens, scores"),
    ("text, in the order of the input", "core/search/translate.py", "translations"),
)


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


if __name__ == "__main__":
    (DOCS / "pictures" / "batch.svg").write_text(batch(), encoding="utf-8")
