"""What every component must do, as checks that a plug-in's tests call: models, sublayers, kinds of documents, metrics.

Each check computes the same in two ways, or states a property, and raises AssertionError with a sentence. It needs no
data, no trained model and a second or two. docnmt's own tests call the same checks for everything that is built in.
"""

from __future__ import annotations

import inspect
import io
import itertools
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from docnmt.apps.documents.kinds import read
from docnmt.apps.documents.sentences import SegmentSentence, translated
from docnmt.core.batch import TranslationBatch, collate, planned_units
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.data_options import DocumentTranslationConfig
from docnmt.core.models.config import model_config
from docnmt.core.models.encoder_decoder import is_translation_model
from docnmt.core.scoring.metrics import evaluate
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.split_sentences import split_sentences
from docnmt.core.tokenizer import Tokenizer
from docnmt.core.training.criterions import CrossEntropy
from docnmt.core.translation_task import DocumentTranslation
from docnmt.functional.decoding import TokenTable
from docnmt.functional.loss import label_log_probs
from docnmt.layout import DocumentLayout
from docnmt.modules.layers import Reads, Slots, Step, Sublayer
from docnmt.options import contradictions, settings
from docnmt.registry import ARCHITECTURES, METRICS, MODELS

#: What a model is built with, as far as it has these options: small, and nothing random but its weights.
SMALL = {"encoder_layers": 2, "decoder_layers": 2, "embed_dim": 32, "heads": 2, "ffn_dim": 48, "dropout": 0.0}
WORDS = [
    "the", "a", "dog", "cat", "house", "tree", "sees", "finds", "old", "new", "in", "under", "and", "then", "sleeps",
]  # fmt: skip


def documents(count: int = 4, sentences: int = 4, seed: int = 0) -> list[list[str]]:
    """Return documents of random words, of different lengths."""
    draw = np.random.default_rng(seed)
    return [
        [" ".join(draw.choice(WORDS, draw.integers(1, 12))) + "." for _ in range(draw.integers(1, sentences + 1))]
        for _ in range(count)
    ]


@cache
def task() -> DocumentTranslation:
    """Return a translation task with a vocabulary of 36 subwords."""
    tokenizer = Tokenizer.train([line for document in documents(40, 8, seed=9) for line in document], 36)
    return DocumentTranslation(DocumentTranslationConfig(), languages=("en", "de"), tokenizers=(tokenizer, tokenizer))


def corpus() -> ParallelCorpus:
    """Return the documents with their sentences backwards as translations."""
    tokenizer, source = task().source_tokenizer, documents()
    backwards = [[" ".join(reversed(line.split())) for document in source for line in document]]
    target = ParallelCorpus.from_lines(backwards, tokenizer).source
    return replace(ParallelCorpus.from_lines(source, tokenizer), target=target)


def check_model(arch: str, **options: Any) -> None:
    """Check a translation architecture, built small with these options of its model.

    Every parameter gets a gradient, and all of them are finite. A step at a time gives the scores of the whole row
    (float64, 1e-10). A document's translations depend on no other document and not on the batch.

    An `AssertionError` says what does not hold; a `ValueError`, that there is no such architecture, or its options
    contradict each other."""
    architecture = ARCHITECTURES.get(arch)
    config = model_config(architecture.model, {**architecture.overrides(), **options})
    if getattr(config, "default_task", "document_translation") != "document_translation":
        raise ValueError(f"{arch}: check_model checks translation models")
    names = {setting.name for setting in settings(config)}
    values = {**architecture.overrides(), **{key: v for key, v in SMALL.items() if key in names}, **options}
    if problems := contradictions(config(**values)):
        raise ValueError(f"{arch}: {problems[0]}")
    torch.manual_seed(0)
    model = task().build_model(MODELS.get(architecture.model), config(**values)).eval()
    assert is_translation_model(model), f"{arch}: check_model checks translation models, this is {type(model).__name__}"
    with torch.no_grad():
        model.output.weight.mul_(4.0)  # so that choices differ
    data = corpus()
    units = planned_units(model.reading, data)
    batch = collate(data, units, np.arange(len(units)), model.reading)

    total, _, _ = CrossEntropy(label_smoothing=0.1)(model, batch)
    total.backward()
    missing = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert not missing, f"{arch}: no gradient reaches {', '.join(missing)}"
    wrong = [n for n, p in model.named_parameters() if p.grad is not None and not p.grad.isfinite().all()]
    assert not wrong, f"{arch}: the gradients of {', '.join(wrong)} are not finite"
    model.zero_grad()

    check_steps(model.double(), batch, arch)
    _check_documents(model.float(), arch)


def check_steps(model: Any, batch: TranslationBatch, name: str = "the model") -> None:
    """Check that a step at a time gives every label the log-probability that the whole row gives."""
    layout, tokens = batch.target.layout, batch.target.tokens
    offsets, lengths = layout.sentence_offsets.tolist(), layout.sentences.lengths.tolist()
    with torch.no_grad():
        labelled = (batch.labels >= 0).nonzero()[:, 0]
        whole = torch.full(batch.labels.shape, torch.nan, dtype=torch.float64)  # (T,)
        whole[labelled] = label_log_probs(model(batch), model.output, batch.labels, labelled).double()
        memory = model.encode(batch.source)
        begin = model.begin
        if model.reading.own_text or model.reading.given_text:  # what it would read had it written the targets
            first = layout.document_offsets[layout.document_of_sentence].tolist()
            words = [tokens[a + 1 : b].tolist() for a, b in itertools.pairwise(offsets)]
            earlier = [
                [model.remember(memory, n, words[n]) for n in range(first[slot], slot)] for slot in range(len(lengths))
            ]
            begin = partial(model.begin, earlier=earlier)
        state = begin(memory, torch.arange(len(lengths)), 2)
        for i in range(max(lengths)):
            rows = [start + min(i, n - 1) for start, n in zip(offsets[:-1], lengths, strict=True)]
            log_probs = model.step(tokens[rows].repeat_interleave(2), state).log_softmax(-1)  # (2 N, V), two rows each
            for slot, n in enumerate(lengths):
                label = int(batch.labels[rows[slot]])
                if i < n and label >= 0:
                    difference = abs(float(log_probs[2 * slot + 1, label] - whole[rows[slot]]))
                    assert difference < 1e-10, (
                        f"{name}: step {i} of sentence {slot} differs from the whole row by {difference:.1e}; does "
                        "`step` read what `forward` reads, no more, and is it causal?"
                    )


def _check_documents(model: Any, name: str) -> None:
    search = BeamSearchConfig(beam=2, max_len_a=0.5, max_len_b=4)

    def scores(texts: list[list[str]], **options: Any) -> list[tuple[str, float]]:
        data = ParallelCorpus.from_lines(texts, task().source_tokenizer)
        results = translate_corpus([model], task(), data, GenerationConfig(**options), search)
        return [(result.text, result.nbest[0].score) for result in results]

    together = scores(documents())
    assert len(together) == sum(map(len, documents())), f"{name}: sentences went in and others came out"
    for kind, others in (
        ("alone", [one for document in documents() for one in scores([document])]),
        ("in batches of one", scores(documents(), batch_size=1, max_tokens=1)),
    ):
        for number, ((text, score), (other, its_score)) in enumerate(zip(together, others, strict=True)):
            assert text == other, f"{name}: sentence {number} becomes {text!r} beside others and {other!r} {kind}"
            assert abs(score - its_score) < 1e-4, (
                f"{name}: sentence {number} scores {score} beside others, {its_score} {kind}"
            )


def check_sublayer(sublayer: Sublayer, d_model: int = 32, *, tolerance: float = 1e-8) -> None:
    """Check a decoder's sublayer on random rows of two documents (float64); an `AssertionError` says what does not
    hold.

    Its output has the shape of its input. It is causal: later tokens change nothing. A step at a time gives the numbers
    of the full pass. Rows may branch off: two equal rows of a slot stay equal."""
    name, sublayer = type(sublayer).__name__, sublayer.double().eval()
    draw = torch.Generator().manual_seed(0)
    layout = DocumentLayout.from_lengths([[4, 2], [5]])
    source_layout = DocumentLayout.from_lengths([[3, 6], [4]])
    x, source = (torch.randn(n, d_model, generator=draw, dtype=torch.float64) for n in (11, 13))
    with torch.no_grad():
        reads = Reads(layout, source, source_layout)
        whole = sublayer(x, reads)  # (T, d)
        assert whole.shape == x.shape, f"{name}: {tuple(x.shape)} in, {tuple(whole.shape)} out; expected the same"
        changed = x.clone()
        changed[3] += 1
        difference = float((sublayer(changed, reads)[:3] - whole[:3]).abs().max())
        assert difference < tolerance, (
            f"{name}: a later token changes an earlier one by {difference:.1e}; is it causal?"
        )
        memory = sublayer.remember(Reads(source_layout, source, source_layout))
        sentences = torch.arange(3)
        slots = Slots(sentences, 2, [[] for _ in range(3)], x[:0])
        cache, table = sublayer.begin(memory, slots), TokenTable.empty(6)
        lengths, offsets = layout.sentences.lengths.tolist(), layout.sentence_offsets.tolist()
        for i in range(max(lengths)):
            rows = [start + min(i, n - 1) for start, n in zip(offsets[:-1], lengths, strict=True)]
            read_so_far = torch.full((6,), i)
            table.grow(read_so_far)
            step = Step(read_so_far, sentences.repeat_interleave(2), table)
            output: Tensor = sublayer.step(x[rows].repeat_interleave(2, 0), cache, step)  # (6, d)
            for slot, n in enumerate(lengths):
                if i < n:
                    for row in (2 * slot, 2 * slot + 1):
                        difference = float((output[row] - whole[rows[slot]]).abs().max())
                        assert difference < tolerance, (
                            f"{name}: step {i} of row {row} differs from the full pass by {difference:.1e}"
                        )


def check_metric(name: str) -> None:
    """Check a registered metric (`--metrics NAME`), built in or a plug-in's; an `AssertionError` says what does not
    hold.

    Its counts add up: the score of a text is that of the sums over its documents. The references themselves score best;
    a damaged text scores worse. The same text scores the same again, and its signature says what it depends on."""
    kind = METRICS.get(name)
    texts = documents(6, 4, seed=3)
    lines = [line for document in texts for line in document]
    offsets = np.cumsum([0, *map(len, texts)])
    damaged = [" ".join([*line.split()[1:], "river"]) for line in lines]

    def evaluated(hypotheses: Sequence[str]) -> Any:
        return evaluate(hypotheses, [lines], offsets, metrics=[name])

    best, worse = evaluated(lines), evaluated(damaged)
    for evaluation in (best, worse):
        counts = evaluation.counts[name]
        assert len(counts) == len(texts), f"{name}: {len(counts)} rows of counts for {len(texts)} documents"
        whole, summed = evaluation.scores[name], evaluation.score(name, counts.sum(0))
        assert abs(whole - summed) < 1e-9, f"{name}: a text scores {whole}, the sums of its documents {summed}"
    good, bad = best.scores[name], worse.scores[name]
    better = good < bad if kind.lower_is_better else good > bad
    assert better, f"{name}: references score {good}, a damaged text {bad}; lower_is_better is {kind.lower_is_better}"
    assert evaluated(damaged).scores[name] == bad, f"{name}: the same text scores otherwise the second time"
    assert best.scores.signatures[name], f"{name}: expected a signature that says what the number depends on"


def check_kind(ending: str, sample: bytes | None = None) -> None:
    """Check a kind of documents by the ending of its files, with a sample file of it or the built-in one; an
    `AssertionError` says what does not hold, a `ValueError`, that there is no built-in sample.

    It has text, and unchanged text leaves the file byte for byte. Translated text is found again, in order, with the
    marks and units that it had. As many texts must come back as went in."""
    kind = ending.removeprefix(".")
    content = _sample_file(kind) if sample is None else sample
    load = partial(read, kind=kind, name=f"x.{kind}", source_lang="en", target_lang="de")
    document = load(content)
    count = len(document.segments)
    assert count, f".{kind}: the sample has no text"
    same = [document.unchanged(number) for number in range(count)]
    assert document.write(same) == content, f".{kind}: unchanged text changes the file"

    def backwards(sentences: Sequence[SegmentSentence]) -> Iterator[str]:
        words = r"(?<![\w{%\\/.-])[a-z]+(?![\w}/:.<])"
        for sentence in sentences:
            if sentence.given is None:
                yield re.sub(words, lambda word: word[0][::-1], sentence.text)

    split = [partial(split_sentences, language=language) for language in ("en", "de")]
    again = load(document.write(translated(document, backwards, split=split[0], split_target=split[1])))
    assert len(again.segments) == count, f".{kind}: {count} texts were written, {len(again.segments)} are read again"
    for number, (before, after) in enumerate(zip(document.segments, again.segments, strict=True), 1):
        where = f".{kind}: text {number}, {before.text!r},"
        assert len(after.marks) == len(before.marks), f"{where} had {len(before.marks)} marks, now {len(after.marks)}"
        assert after.units == before.units, f"{where} stands in another unit than before"
        text = (after.translation or "") if document.bilingual else after.text
        same_length = len(text.split()) == len(before.text.split())
        assert same_length or before.translation or before.text == "%s", f"{where} is {text!r} when it is read again"
    assert document.write(same) == content, f".{kind}: writing a translation changed the document that was read"
    for wrong in (same[:-1], [*same, same[0]]):
        try:
            document.write(wrong)
        except ValueError:
            continue
        raise AssertionError(f".{kind}: {len(wrong)} texts were accepted for {count}")


def _sample_file(kind: str) -> bytes:
    sample = _SAMPLES.get(kind)
    if sample is None:
        raise ValueError(f".{kind}: there is no built-in sample; give one: check_kind({kind!r}, b'…')")
    if isinstance(sample, str):
        return inspect.cleandoc(sample).encode() + b"\n"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as package:
        for name, text in sample.items():
            package.writestr(zipfile.ZipInfo(name), text)
    return file.getvalue()


_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "http://schemas.openxmlformats.org/{0}/2006/main"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"


def _related(kind: str, target: str) -> str:
    return (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{_OFFICE}/{kind}" Target="{target}"/></Relationships>'
    )


_WORD = {
    "[Content_Types].xml": f'<Types xmlns="{_TYPES}"><Override PartName="/word/document.xml" ContentType="application/'
    'vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
    "_rels/.rels": _related("officeDocument", "word/document.xml"),
    "word/document.xml": f'<w:document xmlns:w="{_MAIN.format("wordprocessingml")}"><w:body><w:p><w:r><w:t>The title'
    '</w:t></w:r></w:p><w:p><w:r><w:t xml:space="preserve">The dog </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t '
    'xml:space="preserve">sees</w:t></w:r><w:r><w:t xml:space="preserve"> it.</w:t></w:r></w:p></w:body></w:document>',
}
_NAMES = f'xmlns:p="{_MAIN.format("presentationml")}" xmlns:r="{_OFFICE}" xmlns:a="{_MAIN.format("drawingml")}"'
_SLIDES = {
    "[Content_Types].xml": "<Types/>",
    "ppt/presentation.xml": f'<p:presentation {_NAMES}><p:sldIdLst><p:sldId id="256" r:id="r1"/></p:sldIdLst>'
    "</p:presentation>",
    "ppt/_rels/presentation.xml.rels": _related("slide", "slides/slide1.xml"),
    "ppt/slides/slide1.xml": f"<p:sld {_NAMES}><p:cSld><p:spTree><p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr><p:txBody>"
    "<a:bodyPr/><a:p><a:r><a:t>The title</a:t></a:r></a:p><a:p><a:r><a:t>The old dog sees it.</a:t></a:r></a:p>"
    "</p:txBody></p:sp></p:spTree></p:cSld></p:sld>",
}
_NAMES = f'xmlns="{_MAIN.format("spreadsheetml")}" xmlns:r="{_OFFICE}"'
_SHEET = {
    "[Content_Types].xml": "<Types/>",
    "xl/workbook.xml": f'<workbook {_NAMES}><sheets><sheet name="One" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": _related("worksheet", "worksheets/sheet1.xml"),
    "xl/worksheets/sheet1.xml": f'<worksheet {_NAMES}><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>The old dog'
    "</t></is></c></row></sheetData></worksheet>",
}
_BOOK = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
    'full-path="book.opf"/></rootfiles></container>',
    "book.opf": '<package xmlns="http://www.idpf.org/2007/opf"><metadata/><manifest><item id="a" href="a.xhtml" '
    'media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>',
    "a.xhtml": '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Chapter one</title></head><body><p>The <b>old'
    "</b> dog.</p></body></html>",
}
_OPEN = "urn:oasis:names:tc:opendocument:xmlns"
_OPEN_TEXT = (
    f'<office:document-content xmlns:office="{_OPEN}:office:1.0" xmlns:text="{_OPEN}:text:1.0" '
    f'xmlns:draw="{_OPEN}:drawing:1.0"><office:body><office:{{0}}>{{1}}</office:{{0}}></office:body>'
    "</office:document-content>"
)
_PARAGRAPHS = "<text:h>The title</text:h><text:p>The <text:span>old dog</text:span> sees it.</text:p>"
_PAGE = f"<draw:page><draw:frame><draw:text-box>{_PARAGRAPHS}</draw:text-box></draw:frame></draw:page>"
_XLIFF = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en" target-language="de"'
    ' original="x" datatype="x"><body><trans-unit id="1"><source>The <g id="1">old dog</g> sees it.</source>'
    "</trans-unit></body></file></xliff>"
)
_MARKDOWN = """
    # The *old* dog

    Some **bold cat** and a [link](http://x.y).

    - item one
    """
_SUBTITLE = "00:00:01,000 --> 00:00:02,000\n    The old dog\n    sees the house.\n    "
#: A file's text, or the parts of its package.
_SAMPLES: dict[str, str | dict[str, str]] = {
    "txt": "The dog sees it. The cat walks.\n\n    42",
    "md": _MARKDOWN,
    "mdx": _MARKDOWN + "\n    <Tabs>\n\n    The {name} cat.\n\n    </Tabs>",
    "html": "<html><head><title>The dog</title></head><body><p>The <b>old</b> dog.</p><p>A cat.</p></body></html>",
    "po": """
    msgid ""
    msgstr "Content-Type: text/plain; charset=UTF-8\\n"

    msgid "The dog sees %s"
    msgstr ""
    """,
    "json": '{"title": "The old dog", "list": [1, "item one"]}',
    "yaml": "title: The old dog  # why\n    list: [one dog, 'two cats']",
    "properties": "title=The old dog\n    number=42",
    "strings": '"title" = "The old dog";',
    "xml": '<resources><string name="title">The <b>old</b> dog</string></resources>',
    "resx": '<root><data name="Title" xml:space="preserve"><value>The old dog</value></data></root>',
    "xlf": _XLIFF,
    "sdlxliff": _XLIFF,
    "mqxliff": _XLIFF,
    "tmx": '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>The <hi>old</hi> dog</seg></tuv></tu></body></tmx>',  # noqa: E501
    "srt": f"1\n    {_SUBTITLE}",
    "vtt": f"WEBVTT\n\n    {_SUBTITLE}".replace(",000", ".000"),
    "ass": "[Events]\n    Format: Layer, Start, End, Text\n    Dialogue: 0,0:00:01.00,0:00:02.00,The {\\i1}dog",
    "docx": _WORD,
    "docm": _WORD,
    "dotx": _WORD,
    "pptx": _SLIDES,
    "xlsx": _SHEET,
    "epub": _BOOK,
    "odt": {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": _OPEN_TEXT.format("text", _PARAGRAPHS),
    },
    "odp": {
        "mimetype": "application/vnd.oasis.opendocument.presentation",
        "content.xml": _OPEN_TEXT.format("presentation", _PAGE),
    },
    "fodt": _OPEN_TEXT.replace("document-content", "document").format("text", _PARAGRAPHS),
}
