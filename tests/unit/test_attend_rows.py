"""Rows of decoding slots: the numbers of the general step, whatever stands beside a row and wherever its words are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from docnmt.functional.conditional import selective_attention_step
from docnmt.functional.decoding import Choices, ContextKeys, Shelf, attend_rows
from docnmt.functional.selection import Keys, SelectionPolicy
from docnmt.layout import DocumentLayout
from docnmt.runtime.device import row_invariant

LENGTHS = [[5, 3, 0, 7, 2, 1, 1], [4], [2] * 19, [0, 0], [30, 1, 12]]
HEADS, WIDTH = 2, 32
LAYOUT = DocumentLayout.from_lengths(LENGTHS)
SPANS = LAYOUT.document_sentences.host
POLICIES = [SelectionPolicy(1), SelectionPolicy(3), SelectionPolicy(3, always_own=True), SelectionPolicy(50)]


def keys_of(seed: int, dtype: torch.dtype = torch.float64) -> Keys:
    random = torch.Generator().manual_seed(seed)
    words, values = torch.randn(2, LAYOUT.num_tokens, HEADS, WIDTH, generator=random, dtype=dtype)
    relevance = torch.randn(LAYOUT.num_sentences, HEADS, WIDTH, generator=random, dtype=dtype)
    relevance[LAYOUT.sentences.lengths == 0] = torch.nan  # a mean of nothing
    return Keys(words, values, relevance, LAYOUT)


def queries(rows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    q, sentence_q = torch.randn(2, rows, HEADS, WIDTH, generator=torch.Generator().manual_seed(1), dtype=dtype)
    return q, sentence_q


def choices_of(keys: Keys, documents: list[int]) -> Choices:
    slots = [np.arange(SPANS[n], SPANS[n + 1]) for n in documents]
    found = Choices.of(slots, keys.relevance, LAYOUT.sentences.host[:-1], LAYOUT.sentences.lengths)
    assert found is not None
    return found


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("beam", [1, 3])
def test_they_are_the_general_step(policy: SelectionPolicy, beam: int) -> None:
    keys, documents, own = keys_of(0), [2, 0, 4, 0, 3, 1], [22, 2, 30, 0, 27, 7]
    q, sentence_q = queries(len(documents) * beam)
    expected = selective_attention_step(
        q, sentence_q, keys, policy, document_of_row=torch.tensor(documents).repeat_interleave(beam),
        own=torch.tensor(own).repeat_interleave(beam),
    )  # fmt: skip
    places = torch.tensor([sentence - SPANS[n] for sentence, n in zip(own, documents, strict=True)])
    found = attend_rows(q, sentence_q, keys.words, keys.values, choices_of(keys, documents), policy, own=places)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert (found[4 * beam : 5 * beam] == 0).all()  # a document without a word


def test_one_slot_may_have_all_rows() -> None:
    keys, (q, sentence_q) = keys_of(0), queries(5)
    expected = selective_attention_step(
        q, sentence_q, keys, SelectionPolicy(2), document_of_row=torch.full((5,), 4)
    )  # fmt: skip
    found = attend_rows(q, sentence_q, keys.words, keys.values, choices_of(keys, [4]), SelectionPolicy(2))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_where_nothing_has_a_word_all_rows_are_0() -> None:
    keys, (q, sentence_q) = keys_of(0), queries(2)
    found = attend_rows(q, sentence_q, keys.words, keys.values, choices_of(keys, [3, 3]), SelectionPolicy(2))
    assert found.shape == q.shape
    assert (found == 0).all()
    assert Choices.of([np.arange(0)] * 2, keys.relevance, np.zeros(1, int), np.zeros(1, int)) is None


@torch.inference_mode()
@pytest.mark.skipif(not row_invariant(), reason="products depend on the batch here")
def test_a_row_has_the_same_bits_in_every_company() -> None:
    keys, (q, sentence_q) = keys_of(0, torch.float32), queries(8, torch.float32)
    policy, documents = SelectionPolicy(3), [0, 1, 0, 1, 4, 2, 4, 2]

    def rows(some: list[int]) -> Tensor:
        choices = choices_of(keys, [documents[n] for n in some])
        return attend_rows(q[some], sentence_q[some], keys.words, keys.values, choices, policy)

    whole = rows(list(range(8)))
    for some in ([0, 1, 2, 3], [3, 2, 1, 0, 5], [7, 0, 6, 1, 5, 2, 4]):
        assert torch.equal(rows(some), whole[some])


def test_a_shelf_holds_each_document_once_and_in_place() -> None:
    keys = keys_of(0)
    held = ContextKeys(LAYOUT, keys.words, keys.values, keys.relevance)
    other = replace(held, keys=held.keys + 1)
    shelf = Shelf()
    first = shelf.put([(held, 0), (other, 4)])
    words = shelf.words[: 19 + 43].clone()
    again = shelf.put([(other, 4), (held, 2), (held, 0)])
    assert again.tolist() == [7, 8, 9, *range(10, 29), *first[:7].tolist()]
    assert torch.equal(shelf.words[: 19 + 43], words)
    assert shelf.put([]).tolist() == []
    q, sentence_q = queries(2)
    slots = [again, np.arange(7)]
    choices = shelf.choices(slots)
    assert choices is not None
    found = attend_rows(q, sentence_q, shelf.words, shelf.values, choices, SelectionPolicy(3))
    one_by_one = [[(other, 4), (held, 2), (held, 0)], [(held, 0)]]
    for row, documents in enumerate(one_by_one):
        lengths = [LENGTHS[number] for _, number in documents]
        layout = DocumentLayout.from_lengths([[length for each in lengths for length in each]])
        parts = [
            (part.keys[slice(*at)], part.values[slice(*at)], keys.relevance[SPANS[number] : SPANS[number + 1]])
            for part, number in documents
            for at in [LAYOUT.documents.host[number : number + 2].tolist()]
        ]
        together = Keys(*(torch.cat(each) for each in zip(*parts, strict=True)), layout)
        expected = selective_attention_step(
            q[row : row + 1], sentence_q[row : row + 1], together, SelectionPolicy(3),
            document_of_row=torch.zeros(1, dtype=torch.int64),
        )  # fmt: skip
        torch.testing.assert_close(found[row : row + 1], expected, rtol=0, atol=1e-12)
