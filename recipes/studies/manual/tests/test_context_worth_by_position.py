"""What context is worth: references asked for in true, nearer, shuffled, foreign and no context."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plugins  # noqa: F401  registers them
import pytest
import small_system
import torch
from small_models import build

from docnmt.core.corpus import ParallelCorpus
from docnmt.core.scoring.discourse import ForcedExample
from docnmt.core.search.translate import forced_scores
from docnmt.core.training.criterions import CrossEntropy
from docnmt.core.translation_task import TranslationDataset
from docnmt.runtime.system import UserError

sys.path.insert(0, str(Path(__file__).parents[1]))

import context_worth as tool
from contexts import Asked, Reader, foreign, losses, made_up, shuffled

DOCUMENTS = [small_system.text(1, 6, seed=seed)[0] for seed in (3, 5, 8)]
TARGETS = [[" ".join(reversed(line.rstrip(".").split())) + "." for line in document] for document in DOCUMENTS]
WHOLE: list[tuple[str, dict[str, Any]]] = [
    ("transformer", {}),
    ("doc_transformer", {}),
    ("cond_transformer", {"target_context": "conditional"}),
    ("hier_transformer", {"target_context": "summaries", "position_count": "document"}),
    ("copy_transformer", {}),
    ("concat_transformer", {"source_context": 9, "target_window": 1}),
]
CASES = [*WHOLE, ("concat_transformer", {"source_context": 2, "target_window": 3})]


def corpus() -> ParallelCorpus:
    lines = [[line for document in TARGETS for line in document]]
    return replace(small_system.corpus(DOCUMENTS), target=small_system.corpus(lines).source)


def reader(name: str, options: dict[str, Any], max_tokens: int = 100) -> Reader:
    return Reader(build(name, **options), None, max_tokens)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_in_true_context_it_is_the_loss(name: str, options: dict[str, Any]) -> None:
    text, asks = corpus(), reader(name, options)
    nll = losses(asks, Asked.draw(text, 99, 1), [], 1)["true"]
    data = TranslationDataset(text, asks.planned(text, None), asks.model.reading, "valid")
    with torch.no_grad():
        total, count, _ = CrossEntropy(label_smoothing=0.0)(asks.model, data.batch(np.arange(len(data.units))))
    assert nll.sum() == pytest.approx(float(total), rel=1e-5)
    assert count == (text.target.lengths() + 1).sum()  # type: ignore[union-attr]
    some = Asked.draw(text, 2, 1)
    assert len(some.numbers) == 6
    assert losses(asks, some, [], 1)["true"] == pytest.approx(nll[some.numbers], rel=1e-5, abs=1e-4)


def forced(asks: Reader, context: list[int], last: int, window: int | None = None) -> float:
    """The loss of sentence `last` behind those of `context`, by forced scoring of a contrastive example."""
    sides = [[line for document in side for line in document] for side in (DOCUMENTS, TARGETS)]
    before = [tuple(side[number] for number in context) for side in sides]
    example = ForcedExample(before[0], sides[0][last], before[1], sides[1][last])
    return -forced_scores([asks.model], small_system.task(), [example], context_window=window)[0]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_last_sentence_of_a_document_as_forced_scoring_has_it(name: str, options: dict[str, Any]) -> None:
    text, asks = corpus(), reader(name, options)
    ends, everything = text.document_offsets[1:] - 1, Asked.draw(text, 99, 1)
    nll = losses(asks, everything, [1, 3], 7)
    changes = {"shuffled": shuffled(text, 7), "foreign": foreign(text, 7)}
    for document, last in enumerate(ends.tolist()):
        begin = int(text.document_offsets[document])
        own = list(range(begin, last))
        for window in (1, 3):
            assert nll[f"within {window}"][last] == pytest.approx(forced(asks, own, last, window), rel=1e-5, abs=1e-4)
        if (name, options) in WHOLE:
            assert nll["true"][last] == pytest.approx(forced(asks, own, last), rel=1e-5, abs=1e-4)
            for kind, documents in changes.items():
                context = documents(document, last - begin)[:-1].tolist()
                assert nll[kind][last] == pytest.approx(forced(asks, context, last), rel=1e-5, abs=1e-4)
    contexts = [nll[kind] for kind in ("true", "shuffled", "foreign", "none")]
    if name == "transformer":
        assert all(values == pytest.approx(contexts[0], rel=1e-5, abs=1e-5) for values in contexts)
    else:
        assert all(abs(one - other).max() > 1e-3 for one in contexts for other in contexts if one is not other)


def test_documents_are_made_up_around_the_sentence() -> None:
    text = corpus()
    asked = Asked.draw(text, 99, 1)
    for kind, documents in (("shuffled", shuffled(text, 3)), ("foreign", foreign(text, 3))):
        for number, document, position in zip(asked.numbers, asked.documents, asked.places, strict=True):
            own = set(range(*text.document_offsets[document : document + 2]))
            sentences = documents(document, position).tolist()
            assert (len(sentences), sentences[position]) == (len(own), number)
            others = set(sentences) - {number}
            assert others == own - {number} if kind == "shuffled" else not others & own
            assert len(others) == len(own) - 1
        (made, places) = next(iter(made_up(asked, documents)))
        assert made.num_documents == len(asked.numbers)
        for position, number in zip(places, asked.numbers, strict=True):
            assert made.source[position].tolist() == text.source[number].tolist()
            assert made.target[position].tolist() == text.target[number].tolist()  # type: ignore[index]
    with pytest.raises(UserError, match="two documents at least"):
        foreign(small_system.corpus(DOCUMENTS[:1]), 1)


def test_a_report_divides_sums_and_draws_documents() -> None:
    text = corpus()
    asked = Asked.draw(text, 99, 1)
    words = np.arange(1, text.num_sentences + 1)
    values = np.linspace(2, 5, text.num_sentences)
    report = tool.Report(
        asked, {"true": values, "none": values + words, "foreign": values, "shuffled": values}, words, 2 * words, 1
    )
    content = report.to_dict()
    assert content["contexts"]["true"]["nll"]["nats"] == pytest.approx(values.sum() / words.sum())
    saved = content["contexts"]["none"]["true saves a subword"]
    assert list(saved.values()) == pytest.approx([1, 1, 1])  # the same in every document
    assert list(content["contexts"]["true"]["saves a word"].values()) == pytest.approx([0.5, 0.5, 0.5])
    assert content["contexts"]["true"]["nll"]["low"] < content["contexts"]["true"]["nll"]["nats"]
    assert [row["sentences"] for row in content["positions"].values()] == [3, 3, 6, 3]
    assert list(content["positions"]) == ["1", "2", "3-4", "5-8"]


def test_the_tool_prints_and_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "worth.json"
    tool.main([str(folder / "data"), "--path", str(folder / "run"), "--within", "1", "--json", str(out)])
    content = json.loads(out.read_text(encoding="utf-8"))
    assert list(content["contexts"]) == ["true", "within 1", "shuffled", "foreign", "none"]
    nll = {name: row["nll"]["nats"] for name, row in content["contexts"].items()}
    saved = content["contexts"]["none"]["true saves a subword"]["nats"]
    assert saved == pytest.approx(nll["none"] - nll["true"])
    assert f"{nll['foreign']:.4f}" in capsys.readouterr().out
    for wrong, message in ((["--within", "0"], "at least 1"), (["--gen-subset", "dev"], "no split 'dev'")):
        with pytest.raises(SystemExit):
            tool.main([str(folder / "data"), "--path", str(folder / "run"), *wrong])
        assert message in capsys.readouterr().err
