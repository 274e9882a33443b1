"""`--target-context`: the translations before a sentence, read alike in training (gold) and in decoding (its own)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import small_system
import torch
from attention_reference import assert_same_passes
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import OWN_TEXT, Numbers, batch, build, translate

from docnmt.core.scoring.discourse import ForcedExample
from docnmt.core.search.config import BeamSearchConfig
from docnmt.core.search.translate import forced_scores
from docnmt.layout import DocumentLayout
from docnmt.modules.document_context import attend_earlier


@pytest.mark.parametrize(("name", "options"), OWN_TEXT)
def test_only_what_stands_before_is_read(name: str, options: dict[str, Any]) -> None:
    """A change in a target sentence reaches later sentences of its document, and nothing before it or elsewhere."""
    options = {**options, "target_top_t": 4} if options["target_context"] == "conditional" else options
    model = build(name, **options).double()
    text = batch(model)
    offsets, before = text.target.layout.sentence_offsets.tolist(), model(text)
    for sentence in range(4):
        tokens = text.target.tokens.clone()
        tokens[offsets[sentence] + 1 : offsets[sentence + 1]] = 39
        after = model(replace(text, target=replace(text.target, tokens=tokens)))
        changed = [not torch.allclose(before[a:b], after[a:b], atol=1e-12) for a, b in itertools.pairwise(offsets)]
        same_document = int(text.target.layout.document_of_sentence[sentence])
        for other, document in enumerate(text.target.layout.document_of_sentence.tolist()):
            if other > sentence and document == same_document:
                assert changed[other]
            elif other != sentence:
                assert not changed[other]
        assert torch.allclose(before[offsets[sentence]], after[offsets[sentence]], atol=1e-12)


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 4), max_size=6), min_size=1, max_size=4), st.integers(0, 99))
def test_attention_to_earlier_summaries_word_by_word(lengths: list[list[int]], seed: int) -> None:
    layout = DocumentLayout.from_lengths(lengths)
    torch.manual_seed(seed)
    shapes = (layout.num_tokens, layout.num_sentences, layout.num_sentences)
    inputs = [torch.randn(rows, 2, 3, dtype=torch.float64).requires_grad_() for rows in shapes]
    q, k, v = inputs
    out = []
    for word, sentence in enumerate(layout.sentence_of_token.tolist()):
        first = int(layout.document_offsets[layout.document_of_sentence[sentence]])
        for head in range(2):
            weights = (k[first:sentence, head] @ q[word, head] / 3**0.5).softmax(0)
            out.append(weights @ v[first:sentence, head])
    expected = torch.stack(out).view(-1, 2, 3) if out else 0 * q
    assert_same_passes(attend_earlier(q, k, v, layout), expected, inputs)


DOCUMENTS = [small_system.text(1, 6, seed=seed)[0] for seed in (3, 5, 8)]


@pytest.mark.parametrize(
    ("name", "options", "window"), [(*case, w) for case, w in zip(OWN_TEXT, (None, 1, None, 2, None, 1), strict=True)]
)
def test_a_translation_scores_as_if_its_forerunners_were_forced(
    name: str, options: dict[str, Any], window: int | None
) -> None:
    """Search over its own text against one training pass over the same text; with a window both read the same part."""
    model, task = build(name, **options), small_system.task()
    task.target_tokenizer = Numbers()  # type: ignore[assignment]
    search = BeamSearchConfig(beam=2, lenpen=0.0, max_len_a=0.5, max_len_b=4)
    results, texts = iter(translate(model, DOCUMENTS, search, window=window, task=task)), []
    for document in DOCUMENTS:
        hypotheses = [next(results).nbest[0] for _ in document]
        texts.append([hypothesis.text for hypothesis in hypotheses])
        context = tuple(texts[-1][:-1])
        example = ForcedExample(tuple(document[:-1]), document[-1], context, texts[-1][-1])
        assert forced_scores([model], task, [example], context_window=window) == pytest.approx(
            [hypotheses[-1].score], rel=1e-5, abs=1e-4
        )
        if len(document) > 1 and window is None:
            other = replace(example, target_context=(*context[:-1], "9 9 9 9"))
            assert forced_scores([model], task, [other]) != pytest.approx([hypotheses[-1].score], abs=1e-4)
