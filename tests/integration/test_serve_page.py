"""The page of docnmt-serve in a browser that reaches nothing but the service.

With $SCREENSHOTS it leaves pictures in that folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import small_system
from colours import faint

pytest.importorskip("uvicorn", reason="needs docnmt[serve]")
from pages import TEXT, picture, translate
from served import Served, serve

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("page")
    checkpoint = small_system.save(folder / "m.safetensors", "hier_cond_transformer_tiny")
    with serve(folder / "log", "--path", str(checkpoint), "--beam", "2") as served:
        yield served


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
    assert "\n".join(" ".join(line) for line in sides(page, "target")) == expected
    page.locator(".source .sentence").first.click()
    assert page.locator(".sentence[aria-pressed=true]").count() == 2
    assert page.locator("#detail-target").inner_text() == sides(page, "target")[0][0]
    picture(page, "light")
    page.emulate_media(color_scheme="dark")
    picture(page, "dark")
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download").click()
    assert downloading.value.suggested_filename == "document.de.txt"
    assert Path(downloading.value.path()).read_text() == f"{expected}\n"


def test_sentences_come_one_by_one(page: Any) -> None:
    lines = [
        {"source": [["One.", "Two."]]}, {"line": 0, "sentence": 1, "text": "Zwei.", "score": -0.5},
    ]  # fmt: skip
    body = "".join(json.dumps(line) + "\n" for line in lines)
    page.route("**/translate", lambda route: route.fulfill(body=body, content_type="application/x-ndjson"))
    page.get_by_label("Document").fill("One. Two.")
    page.get_by_role("button", name="Translate").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("the connection ended")
    assert sides(page, "target") == [["…", "Zwei."]]
    assert page.get_by_role("button", name="Download").is_disabled()


def test_what_was_read_is_shown(page: Any) -> None:
    page.get_by_label("Show what is read").check()
    translate(page, "The dog sees a tree. A cat finds it. The old house.")
    page.locator(".target .sentence").nth(1).click()
    assert page.locator("#reads li").count() == 2
    assert page.locator(".source .sentence.read").all_inner_texts() == ["The dog sees a tree.", "The old house."]
    picture(page, "explained")
    page.locator(".target .sentence").first.click()
    assert page.locator(".source .sentence.read").count() == 2


def test_a_file_comes_back_as_it_was(page: Any, tmp_path: Path) -> None:
    (tmp_path / "letter.md").write_text("# The dog\n\nA *cat* finds it. The `tree`.\n", encoding="utf-8")
    page.locator("#file").set_input_files(tmp_path / "letter.md")
    page.get_by_role("button", name="Translate").click()
    playwright.expect(page.get_by_role("status")).to_contain_text("Done", timeout=30_000)
    assert sides(page, "source")[0] == ["The dog"]
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download").click()
    assert downloading.value.suggested_filename == "letter.de.md"
    text = Path(downloading.value.path()).read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert "`tree`" in text


def test_lines_that_stay_are_named(page: Any) -> None:
    text = b"A cat.\n\n> <div>\n> It sleeps.\n> </div>\n"
    page.locator("#file").set_input_files({"name": "a.md", "mimeType": "text/plain", "buffer": text})
    page.get_by_role("button", name="Translate").click()
    status = page.get_by_role("status")
    playwright.expect(status).to_contain_text(
        "markup cannot be told from text there: what begins in line 3", timeout=30_000
    )


def test_everything_works_by_keyboard(page: Any) -> None:
    page.get_by_label("Document").focus()
    page.keyboard.insert_text(TEXT)
    page.keyboard.press("Control+Enter")
    playwright.expect(page.get_by_role("status")).to_contain_text("Done", timeout=30_000)
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className").startswith("sentence"):
            break
    page.keyboard.press("Enter")
    focused = "document.activeElement.dataset.place"
    assert page.evaluate(focused) == "source 0 0"
    for key, place in (("ArrowDown", "source 0 1"), ("ArrowRight", "target 0 1"), ("ArrowDown", "target 2 0")):
        page.keyboard.press(key)
        assert page.evaluate(focused) == place
    assert page.locator("#detail-source").inner_text() == "The <b>old</b> house & the river."
    page.keyboard.press("Escape")
    assert page.locator("#detail").is_hidden()
    assert page.evaluate(focused) == "target 2 0"


def test_a_screen_reader_knows_what_is_what(page: Any) -> None:
    translate(page)
    tree = page.locator("body").aria_snapshot()
    for part in ('heading "docnmt en to de"', 'textbox "Document"', 'button "Translate"', "status", "main", "banner",
                 'region "Translation"', 'button "The dog sees a tree."', "list"):  # fmt: skip
        assert part in tree, tree
    assert page.locator(".target .sentence").first.get_attribute("lang") == "de"


def drop(page: Any, name: str, content: bytes) -> None:
    """Let a file fall on the page, as a browser tells it."""
    page.evaluate(
        """([name, bytes]) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], name));
            const place = document.querySelector("h1");
            for (const kind of ["dragenter", "dragover", "drop"]) {
                place.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
            }
        }""",
        [name, list(content)],
    )


def test_a_file_is_dropped(page: Any) -> None:
    drop(page, "letter.txt", TEXT.encode())
    playwright.expect(page.get_by_label("Document")).to_have_value(TEXT)
    assert not page.locator("form.over").count()
    drop(page, "old.txt", "Größe".encode("latin-1"))
    playwright.expect(page.get_by_role("alert")).to_contain_text("old.txt: not read, because it is not in UTF-8")
    assert page.get_by_label("Document").input_value() == TEXT


def test_a_dropped_document_is_translated_until_there_is_text_again(page: Any) -> None:
    explain = page.get_by_label("Show what is read")
    drop(page, "letter.md", b"# The dog\n\nIt `sleeps`.\n")
    playwright.expect(page.get_by_role("status")).to_contain_text("letter.md: ready")
    assert explain.is_disabled()  # of files the page shows no reading
    page.get_by_role("button", name="Translate").click()
    playwright.expect(page.get_by_role("status")).to_contain_text("Done", timeout=30_000)
    assert sides(page, "source") == [["The dog"], ["It sleeps."]]
    page.get_by_label("Document").fill("a cat")
    assert explain.is_enabled()
    translate(page, "a cat")
    assert sides(page, "source") == [["a cat"]]
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as without TLS
    page.get_by_role("button", name="Copy").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("use Download")


def test_errors_are_told(page: Any) -> None:
    page.get_by_role("button", name="Translate").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("There is no text yet")
    page.get_by_label("Document").fill("a\rb" + "\0")
    page.get_by_role("button", name="Translate").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("Not translated: text:")


def test_a_refused_text_leaves_the_earlier_translation_to_be_copied(page: Any) -> None:
    translate(page)
    page.locator("#file").set_input_files({"name": "a.md", "mimeType": "text/plain", "buffer": b"# A"})
    page.get_by_label("Document").fill("other")
    assert page.locator("#file").input_value() == ""  # the text is translated, not the file
    page.get_by_label("Document").fill("a\rb" + "\0")
    page.get_by_role("button", name="Translate").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("Not translated: text:")
    playwright.expect(page.get_by_role("button", name="Copy")).to_be_enabled()
    playwright.expect(page.get_by_role("button", name="Download")).to_be_enabled()


def test_what_is_too_large_is_neither_read_nor_sent(page: Any) -> None:
    """The service takes 8 MB; a file that was chosen before is not translated in its place."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator("#file").set_input_files({"name": "a.md", "mimeType": "text/plain", "buffer": b"# A"})
    for name in ("book.docx", "book.txt"):
        page.locator("#file").set_input_files({"name": name, "mimeType": "text/plain", "buffer": b"a" * 8_100_000})
        said = f"Not read: {name} has 8.10 MB; this service takes 8.00 MB at most (--max-body). Divide it."
        playwright.expect(page.get_by_role("alert")).to_have_text(said)
    page.get_by_role("button", name="Translate").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("There is no text yet")
    page.evaluate("() => { document.body.dataset.most = '1000'; }")  # so much text in a field takes minutes to show
    page.get_by_label("Document").fill("ä" * 600)  # two bytes each
    page.get_by_role("button", name="Translate").click()
    said = "Not translated: The text has 0.00123 MB; this service takes 0.00100 MB at most"
    playwright.expect(page.get_by_role("alert")).to_contain_text(said)
    assert asked == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_told_from_what_is_behind_it(scheme: str, page: Any) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.get_by_label("Show what is read").check()
    translate(page)
    assert faint(page) == []
    page.locator(".target .sentence").nth(1).click()
    for place in (
        ".target .sentence >> nth=0",
        ".source .sentence.read >> nth=0",
        "#copy",
        "#download",
        "#close",
        "#go",
    ):
        page.locator(place).hover()
        assert faint(page) == [], place
    picture(page, f"hover-{scheme}")
    chosen = page.locator(".target .sentence[aria-pressed=true]")
    assert "underline" in chosen.evaluate("each => getComputedStyle(each).textDecorationLine")  # not by colour alone
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator(".source .sentence").last.hover()
    assert faint(page) == []


def test_on_a_phone_nothing_is_cut_off(chromium: Any, service: Served) -> None:
    context = chromium.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(service.address)
    translate(page)
    page.locator(".target .sentence").first.tap()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for button in page.locator("button:visible:not(.sentence)").all():
        assert button.bounding_box()["height"] >= 44
    picture(page, "phone")
    context.close()


def test_scripts_of_others_cannot_run(chromium: Any, service: Served) -> None:
    page = chromium.new_page()
    page.goto(service.address)
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit=1\">')")
    with page.expect_console_message(lambda message: "Content Security Policy" in message.text, timeout=5000):
        page.evaluate(
            "const s = document.createElement('script'); s.textContent = 'window.hit=1'; document.body.append(s)"
        )
    assert page.evaluate("window.hit") is None
    page.close()


def test_the_token_is_asked_for(chromium: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    token.chmod(0o600)
    checkpoint = small_system.save(tmp_path / "m.safetensors")
    started = serve(tmp_path / "log", "--path", str(checkpoint), "--token-file", str(token), "--beam", "2")
    with started as served:
        page = chromium.new_page()
        page.goto(served.address)
        page.get_by_label("Document").fill("a dog")
        page.get_by_role("button", name="Translate").click()
        playwright.expect(page.get_by_label("Token of this service")).to_be_focused()
        page.keyboard.insert_text("0123456789abcdef")
        page.keyboard.press("Enter")
        playwright.expect(page.get_by_role("status")).to_contain_text("Done", timeout=30_000)
        page.close()
