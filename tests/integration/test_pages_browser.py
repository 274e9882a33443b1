"""The pages in a browser that reaches nothing else: texts stay texts, no script fails, everything works by keyboard.

docnmt-report, docnmt-explain ── a file ──┐
                                          ├── Chromium ── conftest: nothing logged, nothing asked of others
docnmt-serve ── the page and the desk ────┘
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import small_system

pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
from served import Served, serve
from translations import NASTY as MARKUP
from translations import documents, noised, write

import docnmt
from docnmt.apps.explain.attention import Explanation
from docnmt.apps.explain.explain import ExplainedSentence, write_explanation
from docnmt.cli import report as report_command

TEXT = "The dog sees a tree. A cat finds it.\n\nThe <b>old</b> house & the river."
SENTENCES = ["The dog sees a tree.", "A cat finds it.", "The <b>old</b> house & the river."]
NASTY = "<img src=x onerror='window.hacked=1'> the & dög."
SOURCES = [[NASTY, *small_system.text(1, 6, seed=4)[0]], ["a cat sleeps.", "it sees the river."]]
TARGETS = [[line.replace("the", "they") for line in document] for document in SOURCES]


@pytest.fixture
def report(opened_alone: Callable[[str], Any], tmp_path: Path) -> Any:
    """A report on two systems, opened."""
    reference = documents([3, 30, 12], seed=4)
    systems = {"one": noised(reference, 0.3, seed=5), "two": noised(reference, 0.5, seed=6)}
    reference[0][0], systems["one"][0][0], systems["two"][0][0] = "A reference", MARKUP, "A needle in 1.1"
    names = [write(tmp_path / f"{name}.txt", texts) for name, texts in systems.items()]
    ref, out = write(tmp_path / "ref.txt", reference), tmp_path / "page.html"
    assert report_command.main(["--ref", ref, "--src", ref, "--sys", *names, "--samples", "20", "--out", str(out)]) == 0
    return opened_alone(out.as_uri())


def test_a_report_shows_texts_as_texts(report: Any) -> None:
    cells = report.locator("article").nth(0).locator("p").all_text_contents()
    assert cells == ["A reference", "A reference", MARKUP, "A needle in 1.1"]
    assert report.evaluate("typeof hacked") == "undefined"
    assert report.locator("img").count() == 0


def test_everything_in_a_report_can_be_reached_by_tab(report: Any) -> None:
    reached, controls = set(), "[...document.querySelectorAll('a, button, select, input, summary')]"
    wanted = report.evaluate(f"{controls}.filter((e) => !e.disabled && !e.hidden).length")
    for _ in range(wanted + 20):
        report.keyboard.press("Tab")
        reached.add(report.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
    tags = report.evaluate("(at) => at.map((n) => document.querySelectorAll('*')[n]?.tagName)", sorted(reached))
    assert sum(tag in ("A", "BUTTON", "SELECT", "INPUT", "SUMMARY") for tag in tags) == wanted


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[Explanation]]]:
    folder = tmp_path_factory.mktemp("explain")
    options = {"merge": "mean", "target_context": "conditional", "top_t": 2}
    where = small_system.save(folder / "m.safetensors", "hier_cond_transformer_tiny", **options)
    model = docnmt.load(where)
    explanations = model.explain(SOURCES, TARGETS)
    documents = [
        [
            ExplainedSentence(source, docnmt.Translation(target, explanation.target, -1.0, (), explanation))
            for source, target, explanation in zip(*document, strict=True)
        ]
        for document in zip(SOURCES, TARGETS, explanations, strict=True)
    ]
    documents[1][1] = ExplainedSentence("x", docnmt.Translation("y z.", ("▁y", "▁z", "."), 0.0, (0.0,) * 3))
    for name in ("page.html", "page.jsonl"):
        write_explanation(folder / name, documents, model.models)
    return folder, explanations


@pytest.fixture
def explanation_page(opened_alone: Callable[[str], Any], explained: tuple[Path, Any]) -> Any:
    return opened_alone((explained[0] / "page.html").as_uri())


def test_an_explanation_shows_texts_as_texts(explanation_page: Any) -> None:
    assert explanation_page.locator("article").count() == len(SOURCES[0])
    assert explanation_page.evaluate("typeof hacked") == "undefined"
    assert explanation_page.locator("img").count() == 0
    assert explanation_page.locator("#s1 .source").inner_text().replace(" ", "") == NASTY.replace(" ", "")
    assert explanation_page.locator("#s3 .target").inner_text() == " ".join(TARGETS[0][2].split())


def test_an_explanation_by_keyboard(explanation_page: Any) -> None:
    first = explanation_page.locator("#s1 .source .word").nth(0)
    first.focus()
    for key in ("ArrowRight", "ArrowDown", "End", "Enter"):
        explanation_page.keyboard.press(key)
    chosen = explanation_page.locator(".word[aria-pressed=true]")
    assert chosen.get_attribute("data-number") == "1"
    assert chosen.get_attribute("data-side") == "source"
    words = explanation_page.locator("#s2 .source .word")
    assert chosen.get_attribute("data-word") == str(words.count() - 1)
    assert words.evaluate_all("all => all.filter((word) => word.tabIndex === 0).length") == 1
    explanation_page.keyboard.press("Escape")
    assert explanation_page.locator(".word[aria-pressed=true]").count() == 0
    assert explanation_page.evaluate("document.activeElement.dataset.number") == "1"
    explanation_page.keyboard.press("Tab")
    assert explanation_page.evaluate("document.activeElement.dataset.side") == "target"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Of a model that reads what is confirmed."""
    folder = tmp_path_factory.mktemp("desk")
    checkpoint = small_system.save(folder / "m.safetensors", "hier_cond_transformer_tiny", target_context="conditional")
    with serve(folder / "log", "--path", str(checkpoint), "--beam", "2") as served:
        yield served
        assert "Traceback" not in (folder / "log").read_text()


def expect(what: Any) -> Any:
    from playwright.sync_api import expect

    return expect(what)


def translate(page: Any) -> None:
    page.get_by_label("Document").fill(TEXT)
    page.get_by_role("button", name="Translate").click()
    expect(page.get_by_role("status")).to_contain_text("Done", timeout=30_000)


def sides(page: Any, side: str) -> list[list[str]]:
    rows = page.locator("#lines > li").all()
    return [row.locator(f".{side} .sentence").all_inner_texts() for row in rows]


def test_a_text_is_translated_side_by_side(page: Any, service: Served) -> None:
    translate(page)
    assert sides(page, "source") == [
        ["The dog sees a tree.", "A cat finds it."], [], ["The <b>old</b> house & the river."]
    ]  # fmt: skip
    with service.client() as client:
        expected = client.post("/translate", json={"text": TEXT}).json()["text"]
    shown = "\n".join(" ".join(line) for line in sides(page, "target"))
    assert shown == re.sub(" +", " ", expected)  # as a browser shows spaces
    page.locator(".source .sentence").first.click()
    assert page.locator(".sentence[aria-pressed=true]").count() == 2
    assert page.locator("#detail-target").inner_text() == sides(page, "target")[0][0]
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download").click()
    assert downloading.value.suggested_filename == "document.de.txt"
    assert Path(downloading.value.path()).read_text() == f"{expected}\n"


def reach(page: Any, name: str) -> None:
    """Go on with the tabulator until a button of this name has the focus."""
    for _ in range(40):
        if page.evaluate("document.activeElement.textContent") == name:
            return
        page.keyboard.press("Tab")
    raise AssertionError(name)


def again(service: Served, given: str) -> list[str]:
    """What the service makes of the other sentences when the first is confirmed so."""
    with service.client() as client:
        segments: list[Any] = [{"source": SENTENCES[0], "translation": given}, *SENTENCES[1:]]
        address = f"/sessions/{client.post('/sessions', json={'segments': segments}).json()['session']}"
        answered = client.post(f"{address}/translate", json={}).json()["segments"]
        client.delete(address)
    return [segment["translation"] for segment in answered]


def test_the_desk_by_keyboard(page: Any, service: Served) -> None:
    translate(page)
    before = page.locator(".target .sentence").all_text_contents()
    reach(page, "Edit")
    page.keyboard.press("Enter")
    fields = page.locator("#segments textarea")
    expect(fields).to_have_count(3)
    expect(fields.first).to_be_focused()
    assert [field.input_value() for field in fields.all()] == before
    assert page.locator("#segments .source").all_inner_texts() == SENTENCES
    assert page.locator("#result").is_hidden()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("the river walks")
    states = page.locator("#segments .state")
    expect(states.first).to_have_text("edited")
    page.keyboard.press("Control+Enter")
    expect(states.first).to_have_text("confirmed")
    expect(fields.nth(1)).to_be_focused()
    expect(page.get_by_role("status")).to_contain_text("2 segments were translated again", timeout=30_000)
    expected = again(service, "the river walks")
    assert expected != before[1:]
    assert [field.input_value() for field in fields.all()] == ["the river walks", *expected]
    page.keyboard.press("Control+Enter")
    expect(fields.nth(2)).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("of a person")  # while the others are translated again
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("status")).to_contain_text("All segments are confirmed")
    assert page.locator("#segments [data-state=confirmed]").count() == 3
    reach(page, "Back to the translation")
    page.keyboard.press("Enter")
    assert page.locator(".target .sentence").all_text_contents() == ["the river walks", expected[0], "of a person"]
    with service.client() as client:
        assert client.get("/sessions").json()["sessions"] == 0
