"""What a document layout is, and what is none."""

from __future__ import annotations

import pytest
import torch

from docnmt.layout import DocumentLayout


def test_lengths_and_offsets_say_the_same() -> None:
    layout = DocumentLayout.from_lengths([[5, 0, 3], [], [7]])
    assert layout.sentence_offsets.tolist() == [0, 5, 5, 8, 15]
    assert layout.document_offsets.tolist() == [0, 3, 3, 4]
    assert (layout.num_tokens, layout.num_sentences, layout.num_documents) == (15, 4, 3)
    assert layout.sentence_of_token.tolist() == [0] * 5 + [2] * 3 + [3] * 7
    assert layout.document_of_token.tolist() == [0] * 8 + [2] * 7


@pytest.mark.parametrize(
    ("sentences", "documents", "message"),
    [
        ([0, 5, 8], [0, 1], "document_offsets:"),
        ([2, 5, 8], [0, 2], "sentence_offsets:"),
        ([0, 5, 3], [0, 2], "sentence_offsets:"),
        ([0, 5, 8], [1, 2], "document_offsets:"),
        ([], [0], "sentence_offsets:"),
    ],
)
def test_offsets_that_are_no_layout_are_refused(sentences: list[int], documents: list[int], message: str) -> None:
    offsets = (torch.tensor(values, dtype=torch.int64) for values in (sentences, documents))
    with pytest.raises(ValueError, match=message):
        DocumentLayout(*offsets)


def test_negative_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="got -1"):
        DocumentLayout.from_lengths([[2, -1]])
