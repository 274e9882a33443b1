"""Rows of decoding slots: the numbers of the general step, whatever stands beside a row and wherever its words are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from docnmt.functional.conditional import selective_attention_step
from docnmt.functional.decoding import FEW, PackedKeys, Piece, Shelf
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


def packed(keys: Keys) -> PackedKeys:
    return PackedKeys(keys.words, keys.values, keys.layout.sentences, keys.relevance)


def shelf_of(keys: Keys, documents: list[int]) -> Shelf:
    bounds, source = keys.layout.document_sentences.host, packed(keys)
    return Shelf([((source, int(bounds[n]), int(bounds[n + 1])),) for n in documents])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("beam", [1, 3])
def test_they_are_the_general_step(policy: SelectionPolicy, beam: int) -> None:
    keys, documents, own = keys_of(0), [2, 0, 4, 0, 3, 1], [22, 2, 30, 0, 27, 7]
    q, sentence_q = queries(len(documents) * beam)
    expected = selective_attention_step(
        q, sentence_q, keys, policy, document_of_row=torch.tensor(documents).repeat_interleave(beam),
        own=torch.tensor(own).repeat_interleave(beam),
    )  # fmt: skip
    found = shelf_of(keys, documents).attend_chosen(q, sentence_q, policy, {}, torch.tensor(own))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert (found[4 * beam : 5 * beam] == 0).all()  # a document without a word


def test_where_nothing_has_a_word_all_rows_are_0() -> None:
    keys, (q, sentence_q) = keys_of(0), queries(2)
    found = shelf_of(keys, [3, 3]).attend_chosen(q, sentence_q, SelectionPolicy(2), {})
    assert found.shape == q.shape
    assert (found == 0).all()
    assert Shelf([(), ()]).empty


#: One document whose sentences are compared by lists, two that are too long for it, with an empty sentence.
LONG = [[3, 1, 2], [1, 4, 2] * (FEW // 3) + [0, 5, 1, 1, 2], [2] * (FEW + 1)]


def long_keys(dtype: torch.dtype) -> Keys:
    random, layout = torch.Generator().manual_seed(3), DocumentLayout.from_lengths(LONG)
    words, values = torch.randn(2, layout.num_tokens, HEADS, WIDTH, generator=random, dtype=dtype)
    relevance = torch.randn(layout.num_sentences, HEADS, WIDTH, generator=random, dtype=dtype)
    relevance[layout.sentences.lengths == 0] = torch.nan
    return Keys(words, values, relevance, layout)


@pytest.mark.parametrize("policy", POLICIES[1:])
@pytest.mark.parametrize("beam", [1, 3])
def test_texts_of_any_length_are_the_general_step(policy: SelectionPolicy, beam: int) -> None:
    keys, documents, own = long_keys(torch.float64), [1, 0, 2, 1], [FEW + 3, 1, FEW + 20, 5]
    q, sentence_q = queries(len(documents) * beam)
    rows = torch.tensor(documents).repeat_interleave(beam)
    expected = selective_attention_step(
        q, sentence_q, keys, policy, document_of_row=rows, own=torch.tensor(own).repeat_interleave(beam)
    )
    found = shelf_of(keys, documents).attend_chosen(q, sentence_q, policy, {}, torch.tensor(own))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@torch.inference_mode()
@pytest.mark.skipif(not row_invariant(), reason="products depend on the batch here")
def test_a_row_of_a_long_text_has_the_same_bits_in_every_company() -> None:
    keys, (q, sentence_q) = long_keys(torch.float32), queries(8, torch.float32)
    policy, documents = SelectionPolicy(3), [0, 1, 1, 2, 1, 0, 2, 1]
    whole = shelf_of(keys, documents).attend_chosen(q, sentence_q, policy, {})
    for some in ([1], [3, 6], [0, 1, 2, 3], [7, 0, 6, 1, 5, 2, 4]):
        shelf = shelf_of(keys, [documents[n] for n in some])
        assert torch.equal(shelf.attend_chosen(q[some], sentence_q[some], policy, {}), whole[some])


def test_a_shelf_has_each_piece_once_and_forgets_what_is_not_read() -> None:
    """Slots enter and leave; each reads its pieces of two memories as if they were one document."""
    random, memories = torch.Generator().manual_seed(0), [packed(keys_of(seed)) for seed in (0, 1)]
    pieces: list[Piece] = [(memory, int(SPANS[n]), int(SPANS[n + 1])) for memory in memories for n in (0, 1, 2, 4)]
    shelf, policy = Shelf([]), SelectionPolicy(3)
    for number in range(40):
        if len(shelf.slots) > 3:
            stay = torch.tensor([1, 3, 2])
            shelf.keep(stay, stay)
        chosen = torch.randperm(len(pieces), generator=random)[: number % 4].tolist()
        shelf.append(Shelf([tuple(pieces[n] for n in chosen)] * (1 + number % 2)))
        q, sentence_q = queries(len(shelf.slots))
        found = shelf.attend_chosen(q, sentence_q, policy, {})
        for row, slot in enumerate(shelf.slots):
            if not slot:
                assert (found[row] == 0).all()
                continue
            bounds = [memory.spans.host[begin : end + 1] for memory, begin, end in slot]
            layout = DocumentLayout.from_lengths([[int(n) for part in bounds for n in part[1:] - part[:-1]]])
            words = [(memory, slice(part[0], part[-1])) for (memory, *_), part in zip(slot, bounds, strict=True)]
            together = Keys(
                torch.cat([memory.keys[at] for memory, at in words]),
                torch.cat([memory.values[at] for memory, at in words]),
                torch.cat([memory.relevance[begin:end] for memory, begin, end in slot]),  # type: ignore[index]
                layout,
            )
            expected = selective_attention_step(
                q[[row]], sentence_q[[row]], together, policy, document_of_row=torch.tensor([0])
            )
            torch.testing.assert_close(found[[row]], expected, rtol=0, atol=1e-12)
    assert len(shelf.keys) <= 4 * sum(memory.keys.shape[0] for memory in memories)
