"""What the benches beside other toolkits are built of: the made-up language, turns, the floor, padded batches."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import small_system
import torch

from docnmt.core.batch import collate, planned_units


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))

    def find(name: str) -> ModuleType:
        return importlib.import_module(name)

    return find


def test_a_made_up_text_has_as_many_subwords_as_words(tool: Any) -> None:
    peers = tool("peers")
    tokenizer = peers.vocabulary(400)
    lines = peers.sentences(50, 400, (3, 9), 1)
    assert len(tokenizer.vocabulary()) == len(set(tokenizer.vocabulary())) == 400
    for line, ids in zip(lines, tokenizer.encode(lines), strict=True):
        assert len(ids) == len(line.split()) in range(3, 10)
        assert 0 not in ids
        assert tokenizer.decode(ids) == line


def test_ways_take_turns_in_both_directions_after_a_round_to_warm_up(tool: Any) -> None:
    peers, calls = tool("peers"), []

    def way(name: str) -> Any:
        return lambda number: calls.append(name + str(number)) or float(number)

    taken = peers.in_turns({"a": way("a"), "b": way("b")}, 2)
    assert calls == ["a0", "b0", "b1", "a1", "a2", "b2"]
    assert taken == {"a": [1.0, 2.0], "b": [1.0, 2.0]}
    assert peers.ratio([2.0, 3.0, 8.0], [2.0, 1.0, 4.0]) == "2.00 (1.00 – 3.00)"


def test_the_floor_has_every_matrix_of_the_model(tool: Any) -> None:
    """One row of source and of target: as many multiplications as linear layers have weights."""
    sizes = {"embed_dim": 64, "heads": 1, "ffn_dim": 256, "encoder_layers": 2, "decoder_layers": 2}
    model = small_system.model("transformer", position_fusion="add", **sizes)
    weights = sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear))
    size = tool("trainers").Size(model.output.out_features, 64, 2)
    assert sum(rows * columns_in * columns_out for rows, columns_in, columns_out in size.products(1, 1)) == weights


def test_other_programs_train_on_the_sentences_of_a_batch(tool: Any) -> None:
    others, size = tool("other_trainers"), tool("trainers").Size(45, 64, 1)
    corpus = small_system.corpus(small_system.text(3, 4))
    corpus = replace(corpus, target=corpus.source)
    model = small_system.model()
    units = planned_units(model.reading, corpus)
    batch = collate(corpus, units, np.arange(len(units)), model.reading)
    source, target = others.sentences_of(batch)
    expected = [[*corpus.source[n], 2] for n in range(corpus.num_sentences)]
    assert [row.tolist() for row in source] == [row.tolist() for row in target] == expected
    update = others.plain(size, [(source, target)])["float32"]
    assert update(0) == batch.num_tokens
    with torch.no_grad():
        plain = others.Plain(size).eval()
        short = [row for row in source if len(row) < max(map(len, source))]
        padded, alone = others.padded(source, 1), torch.from_numpy(short[0])[None]
        row = [len(sentence) for sentence in source].index(len(short[0]))
        together = plain(padded, padded)[row, : alone.shape[1]]
        torch.testing.assert_close(together, plain(alone, alone)[0], atol=1e-4, rtol=1e-4)  # padding is never read
