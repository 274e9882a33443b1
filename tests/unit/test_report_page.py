"""The page as a file: nothing in it runs, loads or is cut short by what the texts hold; and wrong input is refused."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path

import pytest
from translations import NASTY, documents, noised, write

from docnmt.cli import report as command


class Parsed(HTMLParser):
    """Every element with its attributes, and what stands in each script and style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.open: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open = tag if tag in self.inside else None
        if self.open:
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self.open = None

    def handle_data(self, data: str) -> None:
        if self.open:
            self.inside[self.open][-1] += data


def files(folder: Path, *, nasty: bool = False, **change: list[str]) -> list[str]:
    """Options for a reference, a source and two systems."""
    reference = documents([3, 4, 2])
    systems = {"one": noised(reference, 0.2, seed=1), "two": noised(reference, 0.5, seed=2)}
    if nasty:
        for number, texts in enumerate([reference, *systems.values()]):
            texts[number % 3][1] = NASTY
    names = [write(folder / f"{name}.txt", texts) for name, texts in systems.items()]
    ref, src = write(folder / "ref.txt", reference), write(folder / "src.txt", reference)
    options = {
        "ref": [ref],
        "src": [src],
        "sys": names,
        "samples": ["20"],
        "out": [str(folder / "page.html")],
        **change,
    }
    return [word for option, values in options.items() for word in (f"--{option}", *values)]


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    """A page all of whose texts and names try to break out."""
    folder = tmp_path_factory.mktemp("nasty")
    more = ["--names", NASTY, f"B {NASTY}", "--title", NASTY, "--target-lang", 'de"><script>', "--ter"]
    assert command.main([*files(folder, nasty=True), *more]) == 0
    return Parsed((folder / "page.html").read_text(encoding="utf-8"))


def test_no_text_becomes_an_element(nasty: Parsed, tmp_path: Path) -> None:
    assert command.main([*files(tmp_path), "--ter"]) == 0
    clean = Parsed((tmp_path / "page.html").read_text(encoding="utf-8"))
    kinds = [{(tag, *attributes) for tag, attributes in page.elements} for page in (nasty, clean)]
    assert kinds[0] <= kinds[1]
    tags = [tag for tag, _ in nasty.elements]
    assert (tags.count("script"), tags.count("style")) == (2, 1)


def test_texts_are_in_the_page_as_they_are(nasty: Parsed) -> None:
    data = json.loads(nasty.inside["script"][0])
    shown = " ".join(NASTY.split())
    assert [column["name"] for column in data["columns"]] == ["Source", "Reference", shown, f"B {shown}"]
    assert all(any("onerror=hacked" in line for line in column["text"]) for column in data["columns"])
    assert [len(column["text"]) for column in data["columns"]] == [9] * 4
    assert data["offsets"] == [0, 3, 7, 9]
    assert nasty.inside["title"][0] == NASTY  # the others are of points in charts
    assert "<" not in nasty.inside["script"][0]


def test_the_policy_allows_this_style_and_this_script_only(nasty: Parsed) -> None:
    (policy,) = (a["content"] for _, a in nasty.elements if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in (policy or "").split(";"))
    (style,), (_, script) = nasty.inside["style"], nasty.inside["script"]
    for rule, text in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    tags = [tag for tag, _ in nasty.elements]
    assert tags.index("meta") < tags.index("style")


def test_nothing_is_loaded_and_no_attribute_runs(nasty: Parsed) -> None:
    for tag, attributes in nasty.elements:
        assert tag not in ("img", "iframe", "object", "embed", "base", "video", "audio")
        assert not any(name.startswith("on") or name in ("style", "src", "srcset", "action") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#") or attributes["href"] == "data:,"
    for text in chain(nasty.inside["style"], nasty.inside["script"][1:]):
        assert not re.search(r"https?:|//\w+\.|url\(|@import|fetch\(|XMLHttpRequest|innerHTML|eval\(", text)


def test_the_best_of_each_column_is_marked(tmp_path: Path) -> None:
    texts, out = documents([3, 4]), tmp_path / "page.html"
    systems = [
        write(tmp_path / name, noised(texts, share, seed=1)) for name, share in (("worse", 0.5), ("better", 0.0))
    ]
    words = ["--ref", write(tmp_path / "ref", texts), "--sys", *systems]
    assert command.main([*words, "--samples", "20", "--out", str(out)]) == 0
    page = out.read_text(encoding="utf-8").partition("<tbody>")[2].partition("</tbody>")[0]
    assert [row.count('class="best"') for row in page.split("</tr>")[:2]] == [0, page.count("<td") // 2]


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"sys": ["short.txt"]}, 1, "short.txt: 8 .*src.txt .* 9 "),
        ({"sys": ["one.txt", "one.txt"]}, 2, "one.txt"),
        ({"discourse": ["ref.txt"]}, 1, "ref.txt: .*docnmt-score"),
        ({"discourse": ["nan.json"]}, 1, "nan.json: .*docnmt-score"),
        ({"out": ["ref.txt"]}, 1, "ref.txt: "),
    ],
)
def test_wrong_input_is_refused_in_a_line(
    change: dict[str, list[str]], status: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    write(tmp_path / "short.txt", [["a"] * 8])
    scores = {"accuracy": 50.0, "chance": float("nan"), "groups": 2, "by": {}}
    (tmp_path / "nan.json").write_text(json.dumps({**scores, "solved": [{"solved": True}, {"solved": False}]}))
    monkeypatch.chdir(tmp_path)
    words, before = files(tmp_path, **change), sorted(tmp_path.iterdir())
    assert command.main(words) == status
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert error.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before
