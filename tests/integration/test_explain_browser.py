"""The page of explanations in a browser: what it says of a word, by mouse, by keyboard, on a phone, in the dark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_system
from colours import faint

import docnmt
from docnmt.apps.explain.attention import Explanation
from docnmt.apps.explain.page import ExplainedSentence, write_explanation
from docnmt.runtime.system import UsageError

NASTY = "<img src=x onerror='window.hacked=1'> the & dög."
SOURCES = [[NASTY, *small_system.text(1, 6, seed=4)[0]], ["a cat sleeps.", "it sees the river."]]
TARGETS = [[line.replace("the", "they") for line in document] for document in SOURCES]


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[Explanation]]]:
    folder = tmp_path_factory.mktemp("explain")
    options = {"merge": "mean", "target_context": "conditional", "top_t": 2}
    where = small_system.save(folder / "m.safetensors", "hier_cond_transformer_tiny", **options)
    model = docnmt.load(where)
    found = model.explain(SOURCES, TARGETS)
    documents = [
        [
            ExplainedSentence(source, docnmt.Translation(target, each.target, -1.0, (), each))
            for source, target, each in zip(*document, strict=True)
        ]
        for document in zip(SOURCES, TARGETS, found, strict=True)
    ]
    documents[1][1] = ExplainedSentence("x", docnmt.Translation("y z.", ("▁y", "▁z", "."), 0.0, (0.0,) * 3))
    for name in ("page.html", "page.jsonl"):
        write_explanation(
            folder / name, documents, tokenizer=model.models.task.source_tokenizer, languages=("en", "de"), models=["m"]
        )
    with pytest.raises(UsageError):
        write_explanation(
            folder / "page.txt", documents, tokenizer=small_system.tokenizer(), languages=("en", "de"), models=["m"]
        )
    return folder, found


@pytest.fixture
def page(opened_alone: Callable[[str], Any], explained: tuple[Path, Any]) -> Any:
    """The page, opened; at the end nothing may have been logged or asked for."""
    return opened_alone((explained[0] / "page.html").as_uri())


def test_texts_are_texts(page: Any) -> None:
    assert page.locator("article").count() == len(SOURCES[0])
    assert page.evaluate("typeof hacked") == "undefined"
    assert page.locator("img").count() == 0
    assert page.locator("#s1 .source").inner_text().replace(" ", "") == NASTY.replace(" ", "")
    assert page.locator("#s3 .target").inner_text() == " ".join(TARGETS[0][2].split())


def mean(explanation: Explanation, pieces: range) -> dict[int, float]:
    """What the page says of a word, from the explanation: the mean over pieces and heads that choose sentences."""
    found: dict[int, float] = {}
    reads = [read for piece in pieces for read in explanation.reads[piece] if read.block in ("context", "target")]
    for read in reads:
        for sentence, weight in zip(read.sentences, read.weights, strict=True):
            found[sentence] = found.get(sentence, 0) + weight / len(reads)
    return found


def test_a_word_lights_the_sentences_that_it_read(page: Any, explained: tuple[Path, list[list[Explanation]]]) -> None:
    explanation = explained[1][0][2]
    second = [n for n, piece in enumerate(explanation.target) if piece.startswith("▁")][1:3]
    expected = mean(explanation, range(*second))
    page.locator("#s3 .target .word").nth(1).click()
    lit = {
        int(row.get_attribute("id")[1:]) - 1: float(row.locator(".share").inner_text().split("\xa0")[0])
        for row in page.locator("article.lit").all()
    }
    assert lit == pytest.approx({n: 100 * weight for n, weight in expected.items()}, abs=1)
    assert "in sentence 3 reads sentence " in page.locator("#said").inner_text()
    assert page.locator(".word[aria-pressed=true]").count() == 1
    assert page.locator(".source .word.looked").count() > 0
    tree = page.locator("#tree")
    assert f"Tree over {len(SOURCES[0])} sentences" in tree.get_attribute("aria-label")
    paths = {(level, n >> level) for n in expected for level in range((len(SOURCES[0]) - 1).bit_length() + 1)}
    assert tree.locator("circle.on").count() == len(paths)
    rows = page.locator("#details table").last.locator("tbody tr")
    assert rows.count() == len(explanation.without)
    assert explanation.log_probs is not None
    for row, one in zip(rows.all(), explanation.without, strict=True):
        name, whole, word = row.locator("th, td").all_inner_texts()
        assert name == f"sentence {one.sentence + 1}"
        change = one.log_probs - explanation.log_probs
        assert float(whole.replace("−", "-")) == pytest.approx(change.sum(), abs=0.02)
        assert float(word.replace("−", "-")) == pytest.approx(change[slice(*second)].sum(), abs=0.02)


def test_one_head_alone(page: Any, explained: tuple[Path, list[list[Explanation]]]) -> None:
    page.locator("#s3 .target .word").nth(0).click()
    page.locator("#details [data-head='0.context.1.0']").click()
    assert page.locator("#head").input_value() == "0.context.1.0"
    explanation = explained[1][0][2]
    end = next(n for n, piece in enumerate(explanation.target) if n and piece.startswith("▁"))
    reads = [read for reads in explanation.reads[:end] for read in reads if read[:3] == ("context", 1, 0)]
    assert page.locator("article.lit").count() == len({n for read in reads for n in read.sentences})
    page.locator("#details [data-head='0.context.1.0']").click()
    assert page.locator("#head").input_value() == ""


def test_words_of_the_source_say_what_the_encoder_read(page: Any) -> None:
    page.locator("#s2 .source .word").nth(0).click()
    assert "in sentence 2 reads sentence" in page.locator("#said").inner_text()
    assert page.locator("#details h3", has_text="Words of the source").count() == 0
    page.locator("#document").select_option("1")
    assert page.locator("article.lit").count() == 0
    page.locator("#s2 .target .word").nth(0).click()
    assert page.locator("#said").inner_text() == "“y”: this translation was given, not written by the model."
    assert page.locator("#said bdi").all_inner_texts() == ["y"]  # marks of direction in it turn nothing around it


def test_by_keyboard(page: Any) -> None:
    first = page.locator("#s1 .source .word").nth(0)
    first.focus()
    for key in ("ArrowRight", "ArrowDown", "End", "Enter"):
        page.keyboard.press(key)
    chosen = page.locator(".word[aria-pressed=true]")
    assert chosen.get_attribute("data-number") == "1"
    assert chosen.get_attribute("data-side") == "source"
    words = page.locator("#s2 .source .word")
    assert chosen.get_attribute("data-word") == str(words.count() - 1)
    assert words.evaluate_all("all => all.filter((word) => word.tabIndex === 0).length") == 1
    page.keyboard.press("Escape")
    assert page.locator(".word[aria-pressed=true]").count() == 0
    assert page.evaluate("document.activeElement.dataset.number") == "1"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.side") == "target"


def test_on_a_phone(page: Any) -> None:
    page.set_viewport_size({"width": 340, "height": 700})
    assert not page.locator("#panel").is_visible()
    word = page.locator(f"#s{len(SOURCES[0])} .target .word").nth(0)
    word.click()
    assert page.locator("#panel").is_visible()
    box, panel = word.bounding_box(), page.locator("#panel").bounding_box()
    assert box["y"] + box["height"] <= panel["y"] + 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 340
    page.get_by_role("button", name="Close").click()
    assert not page.locator("#panel").is_visible()


def test_lines_of_json_hold_the_same(explained: tuple[Path, list[list[Explanation]]]) -> None:
    rows = [json.loads(line) for line in (explained[0] / "page.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["document"], row["sentence"]) for row in rows] == [
        (d, s) for d, document in enumerate(SOURCES) for s in range(len(document))
    ]
    row, explanation = rows[2], explained[1][0][2]
    assert row["source"] == SOURCES[0][2]
    assert row["pieces"] == list(explanation.target)
    for mine, theirs in zip(row["decoder"], explanation.decoder, strict=True):
        assert (mine["block"], mine["layer"]) == (theirs.block, theirs.layer)
        assert len(mine["rows"]) == len(explanation.target) + 1
        totals = [sum(entry[1] for entry in head) for piece in mine["rows"] for head in piece]
        assert totals == pytest.approx(theirs.weights.sum(-1).ravel().tolist(), abs=1e-3)
    assert row["paths"]["1"] == list(explanation.path(1))
    assert [each["sentence"] for each in row["without"]] == [each.sentence for each in explanation.without]
    assert "decoder" not in rows[-1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_told_from_what_is_behind_it(scheme: str, page: Any) -> None:
    """However much was read of a word or a sentence."""
    page.emulate_media(color_scheme=scheme)
    lit = ".looked, .lit, .heads button"
    for side, place in (("target", 0), ("source", 2)):
        page.locator(f".{side} .word").nth(place).click()
        page.evaluate("all => document.querySelectorAll(all).forEach(e => e.style.setProperty('--weight', 1))", lit)
        page.evaluate("for (const e of document.querySelectorAll('.own')) e.classList.add('lit')")
        assert faint(page) == []
    page.locator(".target .word").first.click()
    assert page.locator(".looked").count()
    page.locator(".target .word").nth(1).hover()
    assert faint(page) == []
