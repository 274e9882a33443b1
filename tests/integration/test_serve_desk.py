"""The desk on the page of docnmt-serve: a translation is confirmed segment by segment, by keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import small_system

pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
from colours import faint
from pages import picture, translate
from served import Served, serve

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
SENTENCES = ["The dog sees a tree.", "A cat finds it.", "The <b>old</b> house & the river."]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Of a model that reads what is confirmed."""
    folder = tmp_path_factory.mktemp("desk")
    checkpoint = small_system.save(folder / "m.safetensors", "hier_cond_transformer_tiny", target_context="conditional")
    with serve(folder / "log", "--path", str(checkpoint), "--beam", "2") as served:
        yield served
        assert "Traceback" not in (folder / "log").read_text()


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
        found = client.post(f"{address}/translate", json={}).json()["segments"]
        client.delete(address)
    return [each["translation"] for each in found]


def test_the_desk_by_keyboard(page: Any, service: Served) -> None:
    translate(page)
    before = page.locator(".target .sentence").all_text_contents()
    reach(page, "Edit")
    page.keyboard.press("Enter")
    fields = page.locator("#segments textarea")
    playwright.expect(fields).to_have_count(3)
    playwright.expect(fields.first).to_be_focused()
    assert [field.input_value() for field in fields.all()] == before
    assert page.locator("#segments .source").all_inner_texts() == SENTENCES
    assert page.locator("#result").is_hidden()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("the river walks")
    states = page.locator("#segments .state")
    playwright.expect(states.first).to_have_text("edited")
    page.keyboard.press("Control+Enter")
    playwright.expect(states.first).to_have_text("confirmed")
    playwright.expect(fields.nth(1)).to_be_focused()
    playwright.expect(page.get_by_role("status")).to_contain_text("2 segments were translated again", timeout=30_000)
    expected = again(service, "the river walks")
    assert expected != before[1:]
    assert [field.input_value() for field in fields.all()] == ["the river walks", *expected]
    assert faint(page) == []
    picture(page, "desk")
    page.keyboard.press("Control+Enter")
    playwright.expect(fields.nth(2)).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("of a person")  # while the others are translated again
    page.keyboard.press("Control+Enter")
    playwright.expect(page.get_by_role("status")).to_contain_text("All segments are confirmed")
    assert page.locator("#segments [data-state=confirmed]").count() == 3
    reach(page, "Back to the translation")
    page.keyboard.press("Enter")
    assert page.locator(".target .sentence").all_text_contents() == ["the river walks", expected[0], "of a person"]
    with service.client() as client:
        assert client.get("/sessions").json()["sessions"] == 0


class Held:
    """Requests of a kind that wait until they are let go."""

    def __init__(self, page: Any, address: str, method: str) -> None:
        self.page, self.method, self.open, self.waiting = page, method, False, list[Any]()
        page.route(address, self.take)

    def take(self, route: Any) -> None:
        if self.open or route.request.method != self.method:
            route.continue_()
        else:
            self.waiting.append(route)

    def let_go(self) -> None:
        """The first of them, and all that come later."""
        while not self.waiting:
            self.page.wait_for_timeout(10)
        self.open = True
        self.waiting[0].continue_()


@pytest.mark.parametrize("chosen", ["all", "part"])
def test_what_comes_late_takes_nothing_from_the_person(page: Any, service: Served, chosen: str) -> None:
    translate(page)
    page.get_by_role("button", name="Edit").click()
    fields, states = page.locator("#segments textarea"), page.locator("#segments .state")
    playwright.expect(fields.first).to_be_focused()
    drafts = [field.input_value() for field in fields.all()]
    expected = again(service, "the river walks")
    assert expected[0] != drafts[1]
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("the river walks")
    late = Held(page, "**/translate", "POST")
    page.keyboard.press("Control+Enter")
    playwright.expect(fields.nth(1)).to_be_focused()
    page.keyboard.press("Control+a" if chosen == "all" else "Control+Shift+End")
    if chosen == "part":
        fields.nth(1).evaluate("field => field.setSelectionRange(1, 3)")
    late.let_go()
    playwright.expect(page.get_by_role("status")).to_contain_text("2 segments were translated again", timeout=30_000)
    assert fields.nth(1).input_value() == (expected[0] if chosen == "all" else drafts[1])
    page.keyboard.insert_text("X")
    typed = "X" if chosen == "all" else f"{drafts[1][:1]}X{drafts[1][3:]}"
    assert fields.nth(1).input_value() == typed
    playwright.expect(states.nth(1)).to_have_text("edited")
    assert fields.nth(2).input_value() == expected[1]


def test_what_is_being_confirmed_stays(page: Any, service: Served) -> None:
    translate(page)
    page.get_by_role("button", name="Edit").click()
    fields, states = page.locator("#segments textarea"), page.locator("#segments .state")
    draft = fields.nth(1).input_value()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("the river walks")
    late = Held(page, "**/translate", "POST")
    page.keyboard.press("Control+Enter")
    playwright.expect(fields.nth(1)).to_be_focused()
    confirming = Held(page, "**/segments/1", "PUT")
    page.keyboard.press("Control+Enter")
    late.let_go()
    playwright.expect(page.get_by_role("status")).to_contain_text("2 segments were translated again", timeout=30_000)
    assert fields.nth(1).input_value() == draft
    confirming.let_go()
    playwright.expect(states.nth(1)).to_have_text("confirmed")
    assert fields.nth(1).input_value() == draft


def test_a_desk_that_was_forgotten_says_so(page: Any, service: Served) -> None:
    translate(page)
    with page.expect_response(lambda answer: answer.url.endswith("/sessions")) as opened:
        page.get_by_role("button", name="Edit").click()
    with service.client() as client:
        client.delete(f"/sessions/{opened.value.json()['session']}")
    playwright.expect(page.locator("#segments textarea").first).to_be_focused()
    page.keyboard.press("Control+Enter")
    playwright.expect(page.get_by_role("alert")).to_contain_text("Not confirmed: there is no session")
    page.get_by_label("Document").fill("a cat")
    translate(page, "a cat")  # a new text closes the desk
    assert page.locator("#desk").is_hidden()
    page.get_by_label("Document").fill("")
    page.locator("#file").set_input_files({"name": "a.md", "mimeType": "text/plain", "buffer": b"# A dog"})
    page.get_by_role("button", name="Translate").click()
    playwright.expect(page.get_by_role("status")).to_contain_text("Done", timeout=30_000)
    assert page.get_by_role("button", name="Edit").is_disabled()  # a file has more than its sentences
