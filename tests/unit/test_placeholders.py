"""Placeholders of many systems: each comes through a model that changes every letter."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_documents import Model, document, translate

from docnmt.apps.documents.kinds import kind_of
from docnmt.apps.documents.sentences import fixed_spans, pattern
from docnmt.runtime.system import UserError

#: Placeholders that are ones wherever they stand, …
ALWAYS = [
    "{$NAME}", "{$count :number}", "{$START_BOLD_TEXT}", "__name__", "#name#", "~name~", "%%VAR%%", "[X7X]",
    "C<< a->b >>", "B<<< a >> b >>>", "{name}", "%s", "https://x.org/a", "a@b.org",
]  # fmt: skip
#: … and those that are ones in the messages of programs.
IN_MESSAGES = ["[name]", "[user_id]", "$1", "$12"]
#: What resembles one and is text.
TEXT = ["costs $100 or", "is 5~6 and", "C# and F# are", "a [long note] in", "snake_case is", "__ is"]


def messages(found: dict[str, object]) -> dict[str, str]:
    """The messages of a catalogue, after a model has put all letters into capitals."""
    written: dict[str, str] = json.loads(translate(document("json", json.dumps(found)), Model()))
    return written


@pytest.mark.parametrize("placeholder", [*ALWAYS, *IN_MESSAGES])
def test_a_placeholder_of_a_message_comes_through(placeholder: str) -> None:
    said = f"see {placeholder} here and {placeholder}"
    assert messages({"a": said})["a"] == f"SEE {placeholder} HERE AND {placeholder}"
    po = f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{said}"\nmsgstr ""\n'
    assert f'"SEE {placeholder} HERE AND {placeholder}"' in translate(document("po", po), Model()).decode()


@pytest.mark.parametrize("placeholder", ALWAYS)
def test_a_placeholder_of_a_text_comes_through(placeholder: str) -> None:
    assert translate(document("txt", f"see {placeholder} here\n"), Model()).decode() == f"SEE {placeholder} HERE\n"


@pytest.mark.parametrize("text", [*TEXT, "see [name] on", "pays $1 million"])
def test_what_resembles_a_placeholder_is_text(text: str) -> None:
    assert not fixed_spans(text)
    if text in TEXT:
        assert not fixed_spans(text, ("message",))


def test_pascal_says_which_argument() -> None:
    po = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n#, object-pascal-format\n'
    po += 'msgid "set %0:s to %1:d"\nmsgstr ""\n'
    assert "SET %0:s TO %1:d" in translate(document("po", po), Model()).decode()


def test_forms_of_mediawiki_are_translated() -> None:
    model = Model()
    said = {"a": "$1 sent {{PLURAL:$1|0=none|one dog|$1 {{GENDER:$2|his|her}} dogs}} to [[Page on|it]]"}
    written = json.loads(translate(document("json", json.dumps(said)), model))
    expected = "$1 SENT {{PLURAL:$1|0=NONE|ONE DOG|$1 {{GENDER:$2|HIS|HER}} DOGS}} TO [[Page on|it]]"
    assert written == {"a": expected}
    asked = [sentence.text for sentence in model.asked[0]]
    assert {"none", "one dog", "his", "her"} < set(asked)
    assert not any("PLURAL:" in text for text in asked)


def test_variants_of_messageformat_2_are_translated() -> None:
    said = ".input {$count :number}\n.match $count\none {{one dog {#b}on{/b}}}\n* {{ {$count} dogs }}"
    model = Model()
    written = json.loads(translate(document("json", json.dumps({"a": said})), model))["a"]
    frame = re.sub(r"\{\{.*\}\}", "{{}}", said)
    assert re.sub(r"\{\{.*\}\}", "{{}}", written) == frame
    assert "{$count} DOGS }}" in written
    assert "ONE DOG" in written
    assert "match" not in " ".join(sentence.text for sentence in model.asked[0])


@pytest.mark.parametrize(
    ("said", "forms"),
    [
        ("no apples | one apple | {count} apples", ["no apples", "one apple", "{count} apples"]),
        ("car|cars", ["car", "cars"]),
        ("{0} none|[1,19] some|[20,*] many", ["none", "some", "many"]),
        ("{{ name | upper }} is here", ["{{ name | upper }} is here"]),
        ("| a | b |", ["| a | b |"]),
    ],
)
def test_forms_between_pipes_are_translated_one_by_one(said: str, forms: list[str]) -> None:
    model = Model()
    written = json.loads(translate(document("json", json.dumps({"a": said})), model))["a"]
    assert [sentence.text for sentence in model.asked[0]] == forms
    assert re.findall(r"[^A-Za-z]+", written) == re.findall(r"[^A-Za-z]+", said)
    yaml = translate(document("yaml", f"a: {json.dumps(said)}\n"), Model()).decode()
    assert json.loads(yaml.removeprefix("a: ")) == written


def test_links_of_markdown_keep_their_addresses() -> None:
    said = "see [the <b>x</b>](a) and <i>[our guide](docs/guide.md)</i>"
    assert messages({"a": said})["a"].endswith("<i>[OUR GUIDE](docs/guide.md)</i>")


def test_lists_of_messages_with_names() -> None:
    said = [{"id": "dog", "translation": "a dog"}, {"id": "cat", "translation": {"one": "a cat", "other": "cats"}}]
    written = json.loads(translate(document("json", json.dumps(said)), Model()))
    assert [entry["id"] for entry in written] == ["dog", "cat"]
    assert [entry["translation"] for entry in written] == ["A DOG", {"one": "A CAT", "other": "CATS"}]


@pytest.mark.parametrize("key", ["locale", "@@locale", "lang", "language"])
def test_the_language_of_a_catalogue_becomes_the_targets(key: str) -> None:
    assert messages({key: "en-US", "a": "dog"}) == {key: "de", "a": "DOG"}
    assert messages({key: "fr", "a": "dog"})["a"] == "DOG"
    assert messages({"a": {key: "en"}, "b": "dog"})["a"] != {key: "de"}  # not at the top: a message


@pytest.mark.parametrize("ending", ["arb", "jsonc"])
def test_endings_of_catalogues(ending: str) -> None:
    assert kind_of(f"app_en.{ending}") == "json"


def test_json_with_comments() -> None:
    source = '{\n // a "dog" {\n "a": "see // it", /* "b": "no",\n */ "c": [\n  "two" // ,\n ,],\n}\n'
    written = translate(document("json", source), Model()).decode()
    assert written == source.replace("see // it", "SEE // IT").replace("two", "TWO")
    for wrong, line in (('{\n"a": "b",,\n}\n', 2), ('{ // c\n"a": "b",\n"c" "d"\n}\n', 3), ("{ /* c\n}\n", 1)):
        with pytest.raises(UserError, match=f"x.json:{line}:"):
            document("json", wrong)


PIECES = [
    *ALWAYS,
    *IN_MESSAGES,
    *" .,:;-_'`|@#$%&*()[]{}<>/\\~+=^!?\n",
    "a",
    "B",
    "é",
    "9",
    "www.x.y",
    "logo.png",
    "-x",
    ":a:",
]
PIECES += ["☀", "🚀", "\u200d", "é.é", "C:\\a", "B<x>", "\\fB", "_x0041_", "&amp", "--a-b", "日"]


@settings(max_examples=400)
@given(
    st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
    st.sampled_from([(), ("message",), ("c-format",), ("python-format", "message"), ("python-brace-format",)]),
)
def test_nothing_is_overlooked_where_little_is_looked_at(text: str, flags: tuple[str, ...]) -> None:
    assert fixed_spans(text, flags) == [match.span() for match in pattern(flags).finditer(text)]
