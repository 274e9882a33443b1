"""Explanations: weights are those of the equations, what is left out is left out, alignments point into the texts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_system
import torch
from attention_reference import Inputs, selective
from torch.nn import functional as F

import docnmt
from docnmt.apps import align as alignment
from docnmt.apps.documents.kinds import read as read_document
from docnmt.apps.explain.explain import ExplainedSentence, _shown, _words
from docnmt.cli.align import main
from docnmt.core.corpus import TokenArray
from docnmt.core.search.translate import Translation, forced_batches
from docnmt.core.tokenizer import Tokenizer
from docnmt.modules.document_context import ConditionalAttention
from docnmt.modules.layers import taking_notes
from docnmt.modules.pointer import similarities
from docnmt.other_tasks.sentence_vectors.use import TranslationSummaries
from docnmt.runtime.system import UserError

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
    tokens = [[vocabulary.index(piece) for piece in translation.pieces] for translation in translations]
    return replace(corpus, target=TokenArray.from_lists(tokens, len(vocabulary)))


def inputs_of(
    modules: list[Any], model: docnmt.Translator, translations: list[docnmt.Translation], document: list[str]
) -> list[tuple[Any, tuple[Any, ...]]]:
    """What some modules are given in one pass over what was written."""
    caught: list[tuple[Any, tuple[Any, ...]]] = []
    for module in modules:
        module.register_forward_hook(lambda module, inputs, output: caught.append((module, inputs)))
    network: Any = model.models.models[0]
    corpus = corpus_of(model, translations, document)
    with torch.no_grad():
        network(next(forced_batches(network, model.models.task, corpus, max_tokens=10_000))[1])
    return caught


@pytest.mark.parametrize(("arch", "options"), [CONDITIONAL[1], *OTHERS])
def test_weights_of_a_head_sum_to_one(arch: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = load(tmp_path, arch, **options)
    given = [["a river.", *[None] * (len(document) - 1)] for document in DOCUMENTS]
    plain = model.translate(DOCUMENTS, given=given, **BRIEF)
    assert plain[0][1].reads is None
    explained = model.translate(DOCUMENTS, given=given, explain=True, **BRIEF)
    assert taking_notes() is None
    for document, same in zip(explained, plain, strict=True):
        assert [written.text for written in document] == [written.text for written in same]
        assert document[0].reads == ()
        for number, translation in enumerate(document[1:], 1):
            assert translation.explanation is not None
            assert translation.reads is not None
            assert translation.explanation.number == number
            assert len(translation.reads) == len(translation.pieces)
            layers = {(read.layer, read.head) for read in translation.reads[0] if read.block != "pointer"}
            assert layers == {(layer, head) for layer in (0, 1) for head in (0, 1)}
            for reads in translation.reads:
                for read in reads:
                    assert set(read.sentences) <= set(range(len(document)))
                    assert sum(read.weights) == pytest.approx(1, abs=1e-5) or read.block in ("target", "pointer")
                    assert min(read.weights, default=1) > 0
                    assert list(read.weights) == sorted(read.weights, reverse=True)
                    if read.block == "target":
                        assert max(read.sentences) < number
                    if read.block == "pointer":
                        assert read.sentences == (0,)
            for attention in (*translation.explanation.decoder, *translation.explanation.encoder):
                total = attention.weights.sum(-1)
                assert np.all((np.abs(total - 1) < 1e-4) | (total == 0))


@pytest.mark.parametrize(("arch", "options"), CONDITIONAL)
def test_weights_are_those_of_the_equation(arch: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Queries and keys are caught where attention gets them; the rest is eq. 7 and TraverseTree in plain loops."""
    model, document = load(tmp_path, arch, **options), DOCUMENTS[0]
    translations = model.translate(document, explain=True, **BRIEF)
    network: Any = model.models.models[0]
    modules = [module for module in network.modules() if isinstance(module, ConditionalAttention)]
    caught = inputs_of(modules, model, translations, document)
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
        for sentence, translation in enumerate(translations):
            assert translation.explanation is not None
            attentions = getattr(translation.explanation, side)
            (mine,) = [
                attention for attention in attentions if (attention.block, attention.layer) == (block, int(layer))
            ]
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
    translations = model.translate(document, explain=True, **BRIEF)
    network: Any = model.models.models[0]
    ((cross, (x, reads)),) = inputs_of([network.decoder.layers[1].cross], model, translations, document)
    with torch.no_grad():
        q, k = cross.query(x).view(len(x), 2, -1), cross.split(cross.key_value(reads.source), 2)[0]
    rows, keys = (layout.sentence_offsets.tolist() for layout in (reads.layout, reads.source_layout))
    for sentence, translation in enumerate(translations):
        assert translation.explanation is not None
        mine = next(
            attention
            for attention in translation.explanation.decoder
            if (attention.block, attention.layer) == ("cross", 1)
        )
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
    translations = model.translate(document, given=given, explain=True, **BRIEF)
    network: Any = model.models.models[0]
    for number, translation in enumerate(translations):
        if given[number] is not None:
            continue
        assert translation.explanation is not None
        pointer = translation.explanation.decoder[-1]
        assert pointer.block == "pointer"
        assert pointer.share is not None
        assert pointer.share.shape == (len(translation.pieces) + 1,)
        assert np.all((pointer.share > 0) & (pointer.share < 1))
        assert set(pointer.sentences.flat) == {0, 2}  # what is given, also behind it
        corpus = corpus_of(
            model, [translations[0], translations[2], translation], [document[0], document[2], document[number]]
        )
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


@pytest.mark.parametrize(("arch", "options"), [CONDITIONAL[1], *OTHERS[1:4]])
def test_leaving_a_sentence_out_is_scoring_without_it(arch: str, options: dict[str, Any], tmp_path: Path) -> None:
    model, document = load(tmp_path, arch, **options), DOCUMENTS[0]
    targets = [" ".join(reversed(line.strip(".").split())) + "." for line in document]
    explanations = model.explain(document, targets)
    asked = 0
    for number, explanation in enumerate(explanations):
        assert explanation.log_probs is not None
        parts = [one for one in (*explanation.decoder, *explanation.encoder) if one.block != "cross"]
        own = sum(float(one.weights[one.sentences == number].sum()) for one in parts)
        read = sum(float(one.weights.sum()) for one in parts) - own
        heads = sum(one.weights.shape[0] * one.weights.shape[1] for one in parts)
        assert not parts or sum(explanation.others.values()) == pytest.approx(read / heads, abs=1e-5)
        assert float(explanation.log_probs.sum()) == pytest.approx(
            model.score(document, targets, lenpen=0)[number], abs=1e-3
        )
        assert [one.sentence for one in explanation.without] == list(explanation.others)[:3]
        assert list(explanation.others.values()) == sorted(explanation.others.values(), reverse=True)
        for one in explanation.without:
            rest = [n for n in range(len(document)) if n != one.sentence]
            scores = model.score([document[n] for n in rest], [targets[n] for n in rest], lenpen=0)
            assert float(one.log_probs.sum()) == pytest.approx(scores[rest.index(number)], abs=1e-3)
            assert len(one.log_probs) == len(explanation.target) + 1
            asked += 1
    assert asked >= len(document)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("docnmt.apps.explain.explain.LEFT_OUT", 1)
        left_out = {one.sentence for explanation in model.explain(document, targets) for one in explanation.without}
    assert left_out == {
        Counter(one.sentence for explanation in explanations for one in explanation.without).most_common(1)[0][0]
    }


@pytest.mark.parametrize(("arch", "options"), [CONDITIONAL[0], *OTHERS[::2]])
def test_alignment_points_into_the_texts(arch: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = load(tmp_path, arch, **options)
    targets = [[line.replace("  ", " ").replace("the ", "the  ") for line in document] for document in DOCUMENTS]
    alignments = model.align(DOCUMENTS, targets)
    assert [len(document) for document in alignments] == [len(document) for document in DOCUMENTS]
    explained = model.explain(DOCUMENTS, targets)
    for document, texts, pieces, explanations in zip(DOCUMENTS, targets, alignments, explained, strict=True):
        for source, target, aligned, explanation in zip(document, texts, pieces, explanations, strict=True):
            spelt = "".join(target[slice(*piece.target)] for piece in aligned)
            assert spelt == "".join(target.split())
            assert {piece.source for piece in aligned} <= set(model.models.task.source_tokenizer.spans(source))
            assert len(aligned) == len(explanation.target)
    assert model.align(["", "a cat."], ["", "the dog."])[0] == []


@pytest.mark.parametrize("arch", ["doc_transformer", "scaleformer"])
def test_alignment_in_a_long_document_keeps_all_words_of_a_sentence(
    arch: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model, document = load(tmp_path, arch), small_system.text(1, 40, seed=1)[0]
    assert sum(len(line.split()) for line in document) > 100
    alignment = model.align(document, document)
    monkeypatch.setattr("docnmt.apps.explain.attention._WORDS", 100_000)
    assert alignment == model.align(document, document)


@pytest.mark.parametrize("late", [False, True])
def test_alignment_takes_the_step_at_which_equal_words_meet(
    late: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = load(tmp_path, "transformer_tiny")
    source, target = "dog cat tree", "tree dog cat"
    numbers = {source[begin:end]: n for n, (begin, end) in enumerate(model.models.task.source_tokenizer.spans(source))}
    right = tuple(numbers[target[begin:end]] for begin, end in model.models.task.target_tokenizer.spans(target))
    wrong = (*right[1:], 0)
    steps = (wrong, right) if late else (right, wrong)
    monkeypatch.setattr("docnmt.apps.explain.attention.source_pieces", lambda *_: steps)
    (alignment,) = model.align([source], [target])
    assert len(alignment) == len(right)
    assert all(source[slice(*piece.source)] == target[slice(*piece.target)] for piece in alignment)


# docnmt-align: two documents in, pairs of their sentences out, and a word on every sentence that is left.


Capture = pytest.CaptureFixture[str]

ENGLISH = [
    ("h", "The garden in spring"), ("p", "The snow melts in March. The first flowers come up near the old wall."),
    ("p", "Nobody knows who planted them. They are said to be a hundred years old, and every year there are more."),
    ("h", "The garden in summer"),
    ("p", "In July it is hot. Bees & wasps fly from flower to flower until the evening."),
]  # fmt: skip
GERMAN = [
    ("h", "Der Garten im Frühling"), ("p", "Im März schmilzt der Schnee, und an der alten Mauer kommen Blumen hervor."),
    ("p", "Niemand weiß, wer sie gepflanzt hat."),
    ("h", "Der Garten im Sommer"),
    ("p", "Im Juli ist es heiß. Bienen & Wespen fliegen bis zum Abend von Blüte zu Blüte."),
]  # fmt: skip
PAIRS = [
    ("The garden in spring", "Der Garten im Frühling"),
    ("The snow melts in March. The first flowers come up near the old wall.", GERMAN[1][1]),
    ("Nobody knows who planted them.", GERMAN[2][1]),
    ("The garden in summer", "Der Garten im Sommer"),
    ("In July it is hot.", "Im Juli ist es heiß."),
    ("Bees & wasps fly from flower to flower until the evening.",
     "Bienen & Wespen fliegen bis zum Abend von Blüte zu Blüte."),
]  # fmt: skip
LEFT = "They are said to be a hundred years old, and every year there are more."


def write(path: Path, parts: list[tuple[str, str]]) -> Path:
    """A document of HTML or Markdown."""
    forms = {".md": {"h": "# {}\n\n", "p": "{}\n\n"}, ".html": {"h": "<h1>{}</h1>", "p": "<p>{}</p>"}}[path.suffix]
    path.write_text("".join(forms[kind].format(escape(part)) for kind, part in parts), encoding="utf-8")
    return path


@pytest.mark.parametrize(("one", "other"), [(".md", ".html"), (".html", ".md")])
def test_documents_become_a_memory(tmp_path: Path, capsys: Capture, one: str, other: str) -> None:
    source, target = write(tmp_path / f"letter.en{one}", ENGLISH), write(tmp_path / f"letter.de{other}", GERMAN)
    assert main([str(source), str(target), "-o", str(tmp_path / "out.tmx")]) == 0
    made = (tmp_path / "out.tmx").read_bytes()
    document = read_document(made, "tmx", name="out.tmx", source_lang="en", target_lang="de")
    assert [(segment.text, segment.translation) for segment in document.segments] == PAIRS
    (said,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith((f"{source}:", f"{target}:")))
    assert said.startswith(f"{source}: sentence 5 ")
    assert LEFT in said
    assert main([str(source), str(target), "-o", str(tmp_path / "out.tmx")]) == 1
    assert "--overwrite" in capsys.readouterr().err


def test_a_corpus_becomes_a_corpus(tmp_path: Path, capsys: Capture) -> None:
    """Documents stay documents; a line is a sentence."""
    for language, texts in (("en", ["One two three four.", "Five six.\n\nSeven eight nine."]),
                            ("de", ["Eins zwei drei vier. Fünf sechs.\n\n\nSieben acht neun."])):  # fmt: skip
        (tmp_path / f"raw.{language}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    words = [str(tmp_path / "raw.en"), str(tmp_path / "raw.de"), "-o", str(tmp_path / "out")]
    assert main(words) == 0
    assert (tmp_path / "out.en").read_text() == "One two three four. Five six.\n\nSeven eight nine.\n"
    assert (tmp_path / "out.de").read_text() == "Eins zwei drei vier. Fünf sechs.\n\nSieben acht neun.\n"
    (tmp_path / "raw.de").write_text("Eins.\n", encoding="utf-8")
    assert main([*words, "--overwrite"]) == 1
    assert "raw.de" in capsys.readouterr().err
    (tmp_path / "raw.de").write_text("\n", encoding="utf-8")
    assert main([*words, "--overwrite"]) == 1


def test_the_limit_of_sentences_is_checked_before_any_table_is_made(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment, "MOST_CELLS", 30)
    monkeypatch.setattr(alignment, "word_evidence", None)  # a table of all pairs
    paths = [tmp_path / "long.en", tmp_path / "long.de"]
    for path in paths:
        path.write_text("One.\n\n" + "Two three.\n" * 6, encoding="utf-8")  # the second document is too long
    assert main([*map(str, paths), "-o", str(tmp_path / "out")]) == 1
    assert "6 and 6 sentences are too many" in capsys.readouterr().err


def test_a_corpus_appears_on_both_sides_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for language in ("en", "de"):
        (tmp_path / f"raw.{language}").write_text("One two.\n")
    write = Path.write_text

    def full(path: Path, *content: Any, **how: Any) -> int:
        if "out.de." in path.name:
            raise OSError(28, "No space left on device")
        return write(path, *content, **how)

    monkeypatch.setattr(Path, "write_text", full)
    assert main([str(tmp_path / "raw.en"), str(tmp_path / "raw.de"), "-o", str(tmp_path / "out")]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw.de", "raw.en"]


@pytest.mark.parametrize(
    ("source", "target", "status", "named"),
    [
        ("a.en.txt", "missing.de.txt", 1, "missing.de.txt"), ("a.en.txt", "a.en.txt", 2, "SOURCE"),
        ("a.en.txt", "a.de", 2, "a.de"), ("a.en.txt", "b.en.txt", 2, "--target-lang"),
        ("a.en.txt", "bad.de.docx", 1, "bad.de.docx"), ("a.en.txt", "x.de.po", 1, "x.de.po"),
        ("a.en.txt", "control.de.txt", 1, "U+0001"),
        ("a.en.txt", "said.de.po", 1, "both languages"), ("said.de.xlf", "a.en.txt", 1, "both languages"),
    ],
)  # fmt: skip
def test_what_cannot_be_aligned_is_one_line(
    tmp_path: Path, capsys: Capture, source: str, target: str, status: int, named: str
) -> None:
    contents: dict[str, Any] = {
        "a.en.txt": "A lamp.\n", "b.en.txt": "A cup.\n", "a.de": "Eine Lampe.\n", "bad.de.docx": "no zip",
        "said.de.po": 'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "A lamp."\nmsgstr "Eine Lampe."\n',
        "said.de.xlf": '<xliff version="1.2"><file source-language="en" target-language="de"><body/></file></xliff>',
        "x.de.po": 'msgid "A lamp."\nmsgstr "Eine Lampe."\n', "control.de.txt": "Eine\x01 Lampe.\n",
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert main([str(tmp_path / source), str(tmp_path / target), "-o", str(tmp_path / "out.tmx")]) == status
    said = capsys.readouterr().err.splitlines()
    assert len([line for line in said if " error: " in line]) == 1
    assert named in said[-1]
    assert not (tmp_path / "out.tmx").exists()


def test_a_model_takes_part(tmp_path: Path) -> None:
    """Any model runs; what it says decides where lengths do not."""
    own = small_system.random_checkpoint(tmp_path / "own.safetensors")
    for language, texts in zip(("en", "de"), (["a b", "b a"], ["b b", "a a"]), strict=True):
        (tmp_path / f"raw.{language}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    words = [str(tmp_path / "raw.en"), str(tmp_path / "raw.de"), "-o", str(tmp_path / "out"), "--path", str(own)]
    assert main([*words, "--device", "cpu"]) == 0
    assert (tmp_path / "out.en").exists()


@pytest.mark.parametrize(
    ("line", "shown"),
    [("the 日本 cat", ["the", "日本", "cat"]), ("日本日本", [*"日本日本"]), ("é", ["é"]), ("日cat", ["日cat"])],
)
def test_words_of_the_page_are_text_where_pieces_are_bytes(line: str, shown: list[str]) -> None:
    lines = [line for document in small_system.text(40, 8, seed=9) for line in document]
    tokenizer = Tokenizer.train(lines, 330, byte_fallback=True, exact=False)
    (ids,) = tokenizer.encode([line])
    words = _words(tokenizer.pieces(ids), None)
    assert [word for word, *_ in words] == shown
    assert [first for _, first, *_ in words[1:]] == [last for _, _, last, _ in words[:-1]]
    assert words[-1][2] == len(ids)
    assert _words(["▁<", "unk", ">"], ["<", "unk", ">"])[0][0] == "<unk>"


def test_unknown_characters_of_given_translations_are_shown() -> None:
    given = Translation.of_given("the ☃ <unk> river.", small_system.tokenizer())
    shown = _shown(0, ExplainedSentence("a cat.", given), small_system.task())
    assert [word for word, *_ in shown["target_words"]] == ["the", "☃", "<unk>", "river."]
    assert [first for _, first, *_ in shown["target_words"][1:]] == [last for *_, last, _ in shown["target_words"][:-1]]


def test_a_model_without_summaries_has_no_vectors(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        TranslationSummaries(small_system.save(tmp_path / "m.safetensors"))
