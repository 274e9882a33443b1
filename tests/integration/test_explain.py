"""Explanations: weights are those of the equations, what is left out is left out, alignments point into the texts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_system
import torch
from attention_reference import Inputs, selective
from torch.nn import functional as F

import docnmt
from docnmt.apps.explain.attention import Attention, source_pieces, strongest
from docnmt.apps.explain.page import ExplainedSentence, write_explanation
from docnmt.core.corpus import TextArray, TokenArray
from docnmt.core.search.translate import TranslationMemory, forced_batches, token_log_probs
from docnmt.modules.document_context import ConditionalAttention
from docnmt.modules.layers import taking_notes
from docnmt.modules.pointer import similarities

DOCUMENTS = [*small_system.text(1, 6, seed=4), *small_system.text(1, 3, seed=8)]
BRIEF: dict[str, Any] = {"max_len_a": 0.4, "max_len_b": 2}
CONDITIONAL: list[tuple[str, dict[str, Any]]] = [
    ("cond_transformer", {"top_t": 2}),
    ("cond_transformer", {"top_t": 3, "always_own_sentence": True, "target_context": "conditional"}),
    ("hier_cond_transformer", {"top_t": 2, "merge": "mean"}),
    ("hier_cond_transformer", {"top_t": 2, "merge": "source2token", "select_on": "node"}),
    ("hier_cond_transformer", {"top_t": 2}),
]
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("transformer", {}),
    ("hier_transformer", {"target_context": "summaries"}),
    ("concat_transformer", {"source_context": 2, "target_window": 2}),
    ("doc_transformer", {}),
    ("doc_transformer", {"source_breaks": False}),
    ("scaleformer", {}),
    ("copy_transformer", {}),
]


def load(folder: Path, arch: str, **options: Any) -> docnmt.Translator:
    sizes = {"encoder_layers": 2, "decoder_layers": 2}
    return docnmt.load(small_system.save(folder / "model.safetensors", arch, **{**sizes, **options}))


def corpus_of(model: docnmt.Translator, translations: list[docnmt.Translation], document: list[str]) -> Any:
    """The document with exactly the pieces that were written."""
    vocabulary = model.models.task.target_tokenizer.vocabulary()
    corpus = small_system.corpus([document])
    tokens = [[vocabulary.index(piece) for piece in each.pieces] for each in translations]
    return replace(corpus, target=TokenArray.from_lists(tokens, len(vocabulary)))


@pytest.mark.parametrize(("arch", "options"), [*CONDITIONAL, *OTHERS])
def test_weights_of_a_head_sum_to_one(arch: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = load(tmp_path, arch, **options)
    given = [["a river.", *[None] * (len(document) - 1)] for document in DOCUMENTS]
    plain = model.translate(DOCUMENTS, given=given, **BRIEF)
    assert plain[0][1].reads is None
    found = model.translate(DOCUMENTS, given=given, explain=True, **BRIEF)
    assert taking_notes() is None
    for document, same in zip(found, plain, strict=True):
        assert [each.text for each in document] == [each.text for each in same]
        assert document[0].reads == ()
        for number, each in enumerate(document[1:], 1):
            assert each.explanation is not None
            assert each.reads is not None
            assert each.explanation.number == number
            assert len(each.reads) == len(each.pieces)
            layers = {(read.layer, read.head) for read in each.reads[0] if read.block != "pointer"}
            assert layers == {(layer, head) for layer in (0, 1) for head in (0, 1)}
            for reads in each.reads:
                for read in reads:
                    assert set(read.sentences) <= set(range(len(document)))
                    assert sum(read.weights) == pytest.approx(1, abs=1e-5) or read.block in ("target", "pointer")
                    assert min(read.weights, default=1) > 0
                    assert list(read.weights) == sorted(read.weights, reverse=True)
                    if read.block == "target":
                        assert max(read.sentences) < number
                    if read.block == "pointer":
                        assert read.sentences == (0,)
            for attention in (*each.explanation.decoder, *each.explanation.encoder):
                total = attention.weights.sum(-1)
                assert np.all((np.abs(total - 1) < 1e-4) | (total == 0))


@pytest.mark.parametrize(("arch", "options"), CONDITIONAL)
def test_weights_are_those_of_the_equation(arch: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Queries and keys are caught where attention gets them; the rest is eq. 7 and TraverseTree in plain loops."""
    model, document = load(tmp_path, arch, **options), DOCUMENTS[0]
    found = model.translate(document, explain=True, **BRIEF)
    network: Any = model.models.models[0]
    caught: list[tuple[Any, tuple[Any, ...]]] = []
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: caught.append((module, inputs)))
        for module in network.modules()
        if isinstance(module, ConditionalAttention)
    ]
    corpus = corpus_of(model, found, document)
    with torch.no_grad():
        _, batch = next(forced_batches(network, model.models.task, corpus, max_tokens=10_000))
        network(batch)
    for hook in hooks:
        hook.remove()
    assert len(caught) == (6 if "target_context" in options else 4)
    places: dict[tuple[str, str], int] = {}
    for module, (x, store, layout) in caught:
        keys = module.project(store)
        name = next(name for name, other in network.named_modules() if other is module)
        side, _, layer, block = name.split(".")[:4]
        q, sentence_q = module.split(module.query(x), 2)
        ones = F.one_hot(keys.layout.sentence_of_token, len(document)).float()[:, None].expand(-1, module.heads, -1)
        inputs = Inputs(q, keys.words, ones, sentence_q, keys.relevance)
        expected = selective(inputs, layout, keys.layout, module.policy, store.tree).detach().numpy()  # (Tq, h, S)
        assert ((expected == 0).sum(-1) >= len(document) - module.policy.top_t).all()  # not selected, no weight
        rows = layout.sentence_offsets.tolist()
        for sentence, translation in enumerate(found):
            assert translation.explanation is not None
            attentions = getattr(translation.explanation, side)
            (mine,) = [each for each in attentions if (each.block, each.layer) == (block, int(layer))]
            dense = np.zeros_like(expected[rows[sentence] : rows[sentence + 1]])
            np.put_along_axis(dense, mine.sentences, mine.weights, axis=-1)
            if not mine.weights.size:
                assert block == "target"
                assert sentence == 0
            np.testing.assert_allclose(dense, expected[rows[sentence] : rows[sentence + 1]], atol=2e-5)
            places[side, block] = places.get((side, block), 0) + 1
    assert places["encoder", "context"] == places["decoder", "context"] == 2 * len(document)


def test_cross_attention_is_a_softmax_over_the_source_sentence(tmp_path: Path) -> None:
    model, document = load(tmp_path, "cond_transformer"), DOCUMENTS[0]
    found = model.translate(document, explain=True, **BRIEF)
    network: Any = model.models.models[0]
    caught: list[Any] = []
    hook = network.decoder.layers[1].cross.register_forward_hook(lambda module, inputs, _: caught.extend(inputs))
    with torch.no_grad():
        _, batch = next(
            forced_batches(network, model.models.task, corpus_of(model, found, document), max_tokens=10_000)
        )
        network(batch)
    hook.remove()
    cross, (x, reads) = network.decoder.layers[1].cross, caught
    with torch.no_grad():
        q, k = cross.query(x).view(len(x), 2, -1), cross.split(cross.key_value(reads.source), 2)[0]
    rows, keys = (each.sentence_offsets.tolist() for each in (reads.layout, reads.source_layout))
    for sentence, translation in enumerate(found):
        assert translation.explanation is not None
        mine = next(each for each in translation.explanation.decoder if (each.block, each.layer) == ("cross", 1))
        inside = slice(keys[sentence], keys[sentence + 1])
        scores = torch.einsum("qhd,khd->qhk", q[rows[sentence] : rows[sentence + 1]], k[inside]) * q.shape[-1] ** -0.5
        dense = np.zeros(scores.shape, dtype=np.float32)
        assert mine.places is not None
        np.put_along_axis(dense, mine.places, mine.weights, axis=-1)
        np.testing.assert_allclose(dense, scores.softmax(-1).numpy(), atol=1e-5)
        assert set(mine.sentences.flat) == {sentence}


def test_the_pointer_and_its_gate(tmp_path: Path) -> None:
    model, document = load(tmp_path, "copy_transformer"), DOCUMENTS[0]
    given = [f"{document[0]} it.", None, document[2], *[None] * (len(document) - 3)]
    found = model.translate(document, given=given, explain=True, **BRIEF)
    network: Any = model.models.models[0]
    for number, each in enumerate(found):
        if given[number] is not None:
            continue
        assert each.explanation is not None
        pointer = each.explanation.decoder[-1]
        assert pointer.block == "pointer"
        assert pointer.share is not None
        assert pointer.share.shape == (len(each.pieces) + 1,)
        assert np.all((pointer.share > 0) & (pointer.share < 1))
        assert set(pointer.sentences.flat) == {0, 2}  # what is given, also behind it
        corpus = corpus_of(model, [found[0], found[2], each], [document[0], document[2], document[number]])
        with torch.no_grad():
            _, batch = next(forced_batches(network, model.models.task, corpus, max_tokens=10_000))
            states = network.encoder(batch.source)
            features = network.decoder(batch.target, states, batch.source.layout)
            keys = network.pointer.key(features)
        begin = int(batch.target.layout.sentence_offsets[2])
        expected = similarities(keys[begin:], keys[:begin]).softmax(-1).numpy()
        sentence = batch.target.layout.sentence_of_token[:begin].numpy()
        mine = np.zeros((len(expected), 2))
        for column, other in enumerate((0, 2)):
            mine[:, column] = np.where(pointer.sentences[:, 0] == other, pointer.weights[:, 0], 0).sum(-1)
        np.testing.assert_allclose(mine, np.stack([expected[:, sentence == n].sum(-1) for n in (0, 1)], -1), atol=1e-3)


@pytest.mark.parametrize(("arch", "options"), [CONDITIONAL[1], CONDITIONAL[2], *OTHERS[1:6]])
def test_leaving_a_sentence_out_is_scoring_without_it(arch: str, options: dict[str, Any], tmp_path: Path) -> None:
    model, document = load(tmp_path, arch, **options), DOCUMENTS[0]
    targets = [" ".join(reversed(line.strip(".").split())) + "." for line in document]
    found = model.explain(document, targets)
    asked = 0
    for number, each in enumerate(found):
        assert each.log_probs is not None
        assert float(each.log_probs.sum()) == pytest.approx(model.score(document, targets, lenpen=0)[number], abs=1e-3)
        assert [one.sentence for one in each.without] == list(each.others)[:3]
        assert list(each.others.values()) == sorted(each.others.values(), reverse=True)
        for one in each.without:
            rest = [n for n in range(len(document)) if n != one.sentence]
            scores = model.score([document[n] for n in rest], [targets[n] for n in rest], lenpen=0)
            assert float(one.log_probs.sum()) == pytest.approx(scores[rest.index(number)], abs=1e-3)
            assert len(one.log_probs) == len(each.target) + 1
            asked += 1
    assert asked >= len(document)


def test_a_pointer_without_what_it_reads(tmp_path: Path) -> None:
    model, document = load(tmp_path, "copy_transformer"), DOCUMENTS[0][:2]
    given = [document[0], None]
    found = model.translate(document, given=given, explain=True, **BRIEF)[1]
    assert found.explanation is not None
    (without,) = found.explanation.without
    assert without.sentence == 0
    alone = corpus_of(model, [found], document[1:])
    expected = token_log_probs(model.models.models, model.models.task, alone, max_tokens=1000)[0]
    np.testing.assert_allclose(without.log_probs, expected, atol=1e-4)


def test_paths_lead_from_the_root_to_the_leaf(tmp_path: Path) -> None:
    model = load(tmp_path, "hier_cond_transformer", merge="mean", top_t=2)
    document = ["a cat.", "", "the dog.", "it sleeps.", "they sleep.", "a river."]
    each = model.translate(document, explain=True, **BRIEF)[2].explanation
    assert each is not None
    assert each.leaves == (0, 2, 3, 4, 5)
    assert [each.path(n) for n in each.leaves] == [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 2), (0, 0, 1, 3), (0, 1, 2, 4)]
    assert 1 not in each.others


@pytest.mark.parametrize("arch", ["cond_transformer", "doc_transformer"])
def test_a_sentence_without_a_subword_has_its_place_on_the_page(arch: str, tmp_path: Path) -> None:
    model, document = load(tmp_path, arch), ["a cat sees.", "\u200b", "the old dog."]
    found = model.translate(document, explain=True, **BRIEF)
    assert [each.text == "" for each in found] == [False, True, False]
    rows = [ExplainedSentence(text, each) for text, each in zip(document, found, strict=True)]
    for name in ("page.html", "page.jsonl"):
        write_explanation(
            tmp_path / name, [rows], tokenizer=model.models.task.source_tokenizer, languages=("en", "de"), models=["m"]
        )
    lines = [json.loads(line) for line in (tmp_path / "page.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["translation"] for line in lines] == [each.text for each in found]
    assert len(lines[1]["log_probs"]) == 1  # of its end


def test_what_a_memory_gives_has_negative_numbers(tmp_path: Path) -> None:
    model = load(tmp_path, "cond_transformer", target_context="conditional", top_t=3)
    lines = small_system.text(4, 4, seed=4)
    corpus = small_system.corpus(lines)
    texts = [line for document in lines for line in document]
    memory = TranslationMemory(replace(corpus, references=[TextArray.from_lines(texts)]), count=2)
    for document in model.translate(DOCUMENTS, memory=memory, explain=True, **BRIEF):
        numbers = {n for each in document for reads in each.reads or () for read in reads for n in read.sentences}
        assert min(numbers) < -1
        assert sorted(number for number in numbers if number >= 0) == list(range(len(document)))
        assert all(other.sentence != each.explanation.number for each in document for other in each.explanation.without)


def test_models_of_an_ensemble_are_told_apart(tmp_path: Path) -> None:
    paths = [
        small_system.save(tmp_path / f"{seed}.safetensors", "cond_transformer_tiny", seed=seed, top_t=2)
        for seed in (0, 1)
    ]
    both, document = docnmt.load(paths), DOCUMENTS[1]
    targets = ["it sleeps."] * len(document)
    found = both.explain(document, targets)
    for path, model in zip(paths, (0, 1), strict=True):
        for one, alone in zip(found, docnmt.load(path).explain(document, targets), strict=True):
            mine = [each for each in one.decoder if each.model == model]
            assert [each.weights.tolist() for each in mine] == [each.weights.tolist() for each in alone.decoder]
    scores = both.score(document, targets, lenpen=0)
    assert [float(each.log_probs.sum()) for each in found] == pytest.approx(scores, abs=1e-3)


@pytest.mark.parametrize(("arch", "options"), [CONDITIONAL[0], *OTHERS])
def test_alignment_points_into_the_texts(arch: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = load(tmp_path, arch, **options)
    targets = [[line.replace("  ", " ").replace("the ", "the  ") for line in document] for document in DOCUMENTS]
    found = model.align(DOCUMENTS, targets)
    assert [len(each) for each in found] == [len(each) for each in DOCUMENTS]
    explained = model.explain(DOCUMENTS, targets)
    for document, texts, pieces, explanations in zip(DOCUMENTS, targets, found, explained, strict=True):
        for source, target, aligned, explanation in zip(document, texts, pieces, explanations, strict=True):
            spelt = "".join(target[slice(*each.target)] for each in aligned)
            assert spelt == "".join(target.split())
            assert {each.source for each in aligned} <= set(model.models.task.source_tokenizer.spans(source))
            assert len(aligned) == len(explanation.target)
    assert model.align(["", "a cat."], ["", "the dog."])[0] == []


def test_alignment_finds_a_copy() -> None:
    """An attention that looks at the word which is written, or at the one which was read last, points at it."""
    weights = torch.zeros(5, 1, 4)
    for row, place in enumerate([3, 2, 0, 1, 3]):
        weights[row, 0, place] = 1.0
    index, found = strongest(lambda values: weights @ values.transpose(0, 1), torch.zeros(4, 1, 2), np.arange(4), 4, 2)
    assert index[:, 0, 0].tolist() == [3, 2, 0, 1, 3]
    assert found[:, 0].tolist() == [[1.0, 0.0]] * 5
    attention = Attention("cross", 0, 0, np.full_like(index, 7), found, index)
    assert source_pieces([attention], 7, 3, 4) == ((0, 2, 0, 1), (2, 0, 1, 0))  # the end of the source is no word
    assert source_pieces([], 7, 3, 2) == ((-1, -1), (-1, -1))


@pytest.mark.parametrize("late", [False, True])
def test_alignment_takes_the_step_at_which_equal_words_meet(
    late: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = load(tmp_path, "transformer_tiny")
    source, target = "dog cat tree", "tree dog cat"
    place = {source[begin:end]: n for n, (begin, end) in enumerate(model.models.task.source_tokenizer.spans(source))}
    right = tuple(place[target[begin:end]] for begin, end in model.models.task.target_tokenizer.spans(target))
    wrong = (*right[1:], 0)
    steps = (wrong, right) if late else (right, wrong)
    monkeypatch.setattr("docnmt.apps.explain.attention.source_pieces", lambda *_: steps)
    (found,) = model.align([source], [target])
    assert len(found) == len(right)
    assert all(source[slice(*each.source)] == target[slice(*each.target)] for each in found)
