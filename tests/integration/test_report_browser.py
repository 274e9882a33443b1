"""The page in a browser: what it shows, in which order, by keyboard, on a phone and on paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import CHRF
from translations import NASTY, documents, noised, write

from docnmt.cli import report as command

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")

SIZES = [3, 30, 12, 1, 40]
OFFSETS = np.cumsum([0, *SIZES]).tolist()
REFERENCE = documents(SIZES, seed=4)
SYSTEMS = {"one": noised(REFERENCE, 0.3, seed=5), "two": noised(REFERENCE, 0.5, seed=6)}
#: Shown at places that the tests know: markup, right to left, without spaces, missing.
SYSTEMS["one"][0] = [NASTY, "שלום עולם, זה משפט.", "東京タワーは高い。"]
SYSTEMS["two"][0] = ["A needle in 1.1", "", "東京は高い。"]
REFERENCE[0] = ["A reference", "שלום עולם, זה משפט טוב.", "東京タワーは、とても高い。"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report on all this."""
    folder = tmp_path_factory.mktemp("report")
    names = [write(folder / f"{name}.txt", texts) for name, texts in SYSTEMS.items()]
    lines = (folder / "two.txt").read_text(encoding="utf-8").split("\n")
    assert lines[1] == ""  # the missing translation
    ref = write(folder / "ref.txt", REFERENCE)
    words = ["--ref", ref, "--src", ref, "--sys", *names, "--target-lang", "he", "--samples", "20"]
    assert command.main([*words, "--out", str(folder / "page.html")]) == 0
    return (folder / "page.html").as_uri()


@pytest.fixture
def page(opened_alone: Callable[[str], Any], address: str) -> Any:
    """The report, opened; at the end nothing may have been logged or asked for."""
    return opened_alone(address)


def addresses(page: Any) -> list[str]:
    return page.locator("article .address").all_inner_texts()


def sentence_chrf() -> np.ndarray:
    """(systems, S), by sacreBLEU."""
    reference = [line for text in REFERENCE for line in text]
    return np.array([
        [CHRF().corpus_score([h], [[r]]).score for h, r in zip(lines, reference, strict=True)]
        for lines in ([line for text in texts for line in text] for texts in SYSTEMS.values())
    ])  # fmt: skip


def names_of(order: np.ndarray) -> list[str]:
    """Addresses of sentences."""
    return [f"{np.searchsorted(OFFSETS, s, 'right')}.{s - OFFSETS[np.searchsorted(OFFSETS, s, 'right') - 1] + 1}"
            for s in order.tolist()]  # fmt: skip


def test_texts_are_shown_as_texts(page: Any) -> None:
    cells = page.locator("article").nth(0).locator("p").all_text_contents()
    assert cells == ["A reference", "A reference", NASTY, "A needle in 1.1"]
    assert page.evaluate("typeof hacked") == "undefined"
    assert page.locator("img").count() == 0
    assert page.locator("article").nth(1).locator("p").all_inner_texts()[-1] == "no translation"


def test_directions_follow_the_text(page: Any) -> None:
    directions = page.evaluate(
        "[...document.querySelectorAll('article p')].slice(4, 12).map((p) => getComputedStyle(p).direction)"
    )
    assert directions == ["rtl", "rtl", "rtl", "ltr", *["ltr"] * 4]
    assert page.locator("article p[lang=he]").count() > 0


def common(a: list[str], b: list[str]) -> int:
    """Length of the longest common subsequence, as its definition has it."""
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i, j] = table[i - 1, j - 1] + 1 if x == y else max(table[i - 1, j], table[i, j - 1])
    return int(table[-1, -1])


def test_differences_are_a_longest_common_subsequence(page: Any) -> None:
    lines = [line for texts in (REFERENCE, SYSTEMS["one"]) for line in texts[1]]
    for other, shown in [*zip(lines[:30], lines[30:], strict=True), ("", "a b"), ("a b", ""), ("a b a", "b a b")]:
        found = page.evaluate("([a, b]) => differences(a, b).map(([kind, {word}]) => [kind, word])", [other, shown])
        a, b = (page.evaluate("(text) => words(text).map(({word}) => word)", text) for text in (other, shown))
        assert "".join(a + b) == "".join((other + shown).split())
        assert [word for kind, word in found if kind != "-"] == b
        assert [word for kind, word in found if kind != "+"] == a
        assert sum(kind == "=" for kind, _ in found) == common(a, b)
        assert page.evaluate("([a, b]) => marked(a, b, false).textContent", [other, shown]) == shown


def test_letters_of_scripts_without_spaces_are_words(page: Any) -> None:
    cut = "(text) => words(text).map(({word}) => word)"
    assert page.evaluate(cut, "GPUは東京ー") == ["GPU", "は", "東", "京", "ー"]
    assert page.evaluate(cut, "हिन्दी में e\u0301a कत\u200dब") == ["हिन्दी", "में", "e\u0301a", "कत\u200dब"]
    assert page.evaluate(cut, "don't, 3.5") == ["don", "'", "t", ",", "3", ".", "5"]


def test_very_long_texts_are_compared_by_their_words(page: Any) -> None:
    found = page.evaluate(
        """() => {
          const text = (step) => Array.from({length: 3000}, (_, i) => `w${(i * step) % 3001}`).join(" ");
          const found = differences("a " + text(7), "b " + text(11));
          return found.filter(([kind]) => kind !== "=").map(([kind, {word}]) => kind + word);
        }"""
    )
    assert {"-a", "+b"} <= set(found)
    assert len(found) < 10


def test_what_is_marked_is_what_differs(page: Any) -> None:
    third = page.locator("article").nth(2)
    assert third.locator("ins").count() == 0
    page.get_by_label("also what is missing").check()
    assert third.locator("del").all_text_contents() == ["、とても", "タワー", "、とても"]
    page.get_by_label("Mark what differs from").select_option("one")
    assert third.locator("del").all_text_contents() == ["タワー"]
    assert page.locator("article").nth(0).locator("ins").all_text_contents() != []
    page.get_by_label("Mark what differs from").select_option("nothing")
    assert page.locator("ins, del").count() == 0


def test_orders_are_those_of_the_scores(page: Any) -> None:
    chrf, order, judge = sentence_chrf().round(2), page.get_by_label("Order"), page.get_by_label("judged by")
    page.get_by_label("Sentences a page").select_option("200")
    assert addresses(page) == names_of(np.arange(OFFSETS[-1]))
    ways = {
        ("worst sentences first", "all systems"): chrf.mean(0),
        ("worst sentences first", "two"): chrf[1],
        ("most different sentences first", "all systems"): -np.abs(chrf[0] - chrf[1]),
        ("most different sentences first", "one"): chrf[0] - chrf[1],
    }
    for (how, whose), key in ways.items():
        order.select_option(how)
        judge.select_option(whose)
        assert addresses(page) == names_of(np.argsort(key, kind="stable")), (how, whose)


def test_documents_are_ordered_by_their_scores(page: Any) -> None:
    chrf = np.array([
        [CHRF().corpus_score(lines, [refs]).score for lines, refs in zip(texts, REFERENCE, strict=True)]
        for texts in SYSTEMS.values()
    ])  # fmt: skip
    table = page.locator("#documents-table")

    def documents_shown() -> list[int]:
        return [int(text) for text in table.locator("tbody a").all_inner_texts()]

    apart = np.argsort(-np.abs(chrf[0] - chrf[1])) + 1
    assert documents_shown() == apart.tolist()
    table.get_by_role("button", name="two").click()
    assert documents_shown() == (np.argsort(chrf[1]) + 1).tolist()
    assert table.locator("[aria-sort=ascending]").inner_text().startswith("two")
    page.get_by_label("Order").select_option("most different documents first")
    headings = page.locator("#text-shown h3").all_inner_texts()
    assert [int(text.split()[1]) for text in headings] == [d for d in apart if d in (1, 2, 3, 4, 5)][: len(headings)]


def test_finding_and_filtering(page: Any) -> None:
    find, status = page.get_by_role("searchbox"), page.get_by_role("status")
    find.fill("NEEDLE")
    assert (addresses(page), status.inner_text()) == (["1.1"], "1–1 of 1 sentence")
    assert page.evaluate("[...CSS.highlights.get('found')].map(String)") == ["needle"]
    page.get_by_label("Find in").select_option("one")
    assert (addresses(page), status.inner_text()) == ([], "0 sentences")
    page.get_by_role("button", name="Reset").click()
    assert status.inner_text() == "1–50 of 86 sentences"
    page.get_by_label("Document", exact=True).fill("3")
    page.get_by_label("Document", exact=True).press("Enter")
    assert addresses(page) == [f"3.{n}" for n in range(1, 13)]
    page.get_by_role("button", name="Reset").click()
    page.get_by_label("only where systems differ").check()
    same = sum(a == b for one, two in zip(*SYSTEMS.values(), strict=True) for a, b in zip(one, two, strict=True))
    assert status.inner_text() == f"1–50 of {86 - same} sentences"


def test_addresses_lead_to_their_sentences(page: Any) -> None:
    page.get_by_label("Sentences a page").select_option("25")
    page.evaluate("location.hash = '#2.28'")
    page.locator("[id='s2.28']").wait_for()
    assert page.evaluate("document.activeElement.id") == "s2.28"
    assert page.get_by_role("status").inner_text() == "26–30 of 30 sentences"
    page.locator("#documents-table tbody a", has_text="4").click()
    page.locator("[id='s4.1']").wait_for()
    assert addresses(page) == ["4.1"]
    page.get_by_role("button", name="Next").last.scroll_into_view_if_needed()
    page.get_by_label("Order").select_option("worst sentences first")
    page.get_by_label("Document", exact=True).fill("")
    page.locator("#documents-table tbody a", has_text="4").click()  # the same address again
    assert addresses(page) == ["4.1"]
    for wrong in ("#0", "#6", "#x", "#4.9"):
        page.evaluate(f"location.hash = '{wrong}'")
    assert set(addresses(page)) == {"4.1"}


def test_pages_are_turned_by_keyboard(page: Any) -> None:
    following = page.get_by_role("button", name="Next").last
    following.focus()
    page.keyboard.press("Enter")
    assert addresses(page) == names_of(np.arange(50, 86))
    assert page.evaluate("document.activeElement.id") == "text-title"
    assert following.is_disabled()
    page.get_by_role("button", name="Previous").first.press("Space")
    assert addresses(page)[0] == "1.1"


def test_everything_can_be_reached_by_tab(page: Any) -> None:
    reached, controls = set(), "[...document.querySelectorAll('a, button, select, input, summary')]"
    wanted = page.evaluate(f"{controls}.filter((e) => !e.disabled && !e.hidden).length")
    for _ in range(wanted + 20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
    tags = page.evaluate("(at) => at.map((n) => document.querySelectorAll('*')[n]?.tagName)", sorted(reached))
    assert sum(tag in ("A", "BUTTON", "SELECT", "INPUT", "SUMMARY") for tag in tags) == wanted


def test_every_control_and_figure_has_a_name(page: Any) -> None:
    for role in ("combobox", "searchbox", "spinbutton", "checkbox", "button", "link", "img", "region", "article"):
        found = page.get_by_role(role)
        assert found.count() == page.get_by_role(role, name=re.compile(r"\S")).count()


@pytest.mark.parametrize("long", [False, True], ids=["short names", "long names"])
def test_no_width_needs_scrolling_sideways(chromium: Any, address: str, tmp_path: Path, long: bool) -> None:
    if long:
        ref, *names = (write(tmp_path / f"{name}.txt", texts) for name, texts in {"ref": REFERENCE, **SYSTEMS}.items())
        address = (tmp_path / "page.html").as_uri()
        words = ["--ref", ref, "--sys", *names, "--samples", "2", "--title", "title" * 40, "--out", address[7:]]
        assert command.main([*words, "--names", "a name of many words " * 5, "unbroken" * 20]) == 0
    for width in (320, 390, 1300):
        opened = chromium.new_page(viewport={"width": width, "height": 800})
        opened.goto(address)
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        opened.close()


def test_dark_is_dark_and_paper_is_white(page: Any) -> None:
    def background() -> str:
        return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    light = background()
    page.emulate_media(color_scheme="dark")
    assert sum(int(part) for part in background().strip("rgb()").split(",")) < 120
    page.emulate_media(color_scheme="dark", media="print")
    assert background() == light == "rgb(255, 255, 255)"
    assert not any(page.locator(selector).first.is_visible() for selector in ("nav", ".controls", "#text-reset"))
    assert page.locator("article").first.is_visible()


def test_a_long_page_is_drawn_in_part(chromium: Any, tmp_path: Path) -> None:
    texts = documents([100] * 30, seed=9)
    ref, sys = write(tmp_path / "ref", texts), write(tmp_path / "sys", noised(texts, 0.2, seed=9))
    assert command.main(["--ref", ref, "--sys", sys, "--samples", "2", "--out", str(tmp_path / "page.html")]) == 0
    opened = chromium.new_page()
    opened.goto((tmp_path / "page.html").as_uri())
    assert opened.locator("article").count() == 50
    assert opened.locator("#documents-table tbody tr").count() == 20
    opened.locator("#documents-all").click()
    assert opened.locator("#documents-table tbody tr").count() == 30
    assert opened.evaluate("document.activeElement.closest('tr').rowIndex") == 21
    assert opened.get_by_role("status").inner_text() == "1–50 of 3,000 sentences"
    opened.close()
