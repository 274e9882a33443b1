"""Pieces of XML and HTML that a program sends."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docnmt.apps.documents.fragments import Fragments, HtmlFragment, XmlFragment
from docnmt.apps.documents.segments import DocumentFile, Translated
from docnmt.apps.documents.sentences import translated
from docnmt.apps.documents.text import PlainText
from docnmt.runtime.system import UserError

PIECES = ("dog ", "cat", " &amp; ", "ä", "日 ", ". ", "\n", "&#65;", "%s", "<!-- c -->", "<![CDATA[<x>]]>")
WORDS = st.sampled_from(PIECES)
XML = st.recursive(
    st.lists(WORDS, max_size=5).map("".join),
    lambda inside: st.tuples(st.sampled_from(["b", "g", "x", "p"]), st.lists(inside, max_size=3).map("".join)).map(
        lambda pair: f'<{pair[0]} id="1">{pair[1]}</{pair[0]}>' if pair[1] else f"<{pair[0]}/>"
    ),
    max_leaves=8,
)  # fmt: skip


def small(document: DocumentFile) -> list[Translated]:
    """What a model would make of a document that turns words around."""

    def translate(sentences):  # type: ignore[no-untyped-def]
        return (" ".join(each.text.split()[::-1]) for each in sentences if each.given is None)

    return translated(document, translate, split=lambda line: [line] if line.strip() else [], split_target=str.split)


@settings(max_examples=150)
@given(st.lists(XML, min_size=1, max_size=4))
def test_tags_are_there_as_often_and_it_stays_well_formed(parts: list[str]) -> None:
    text = "".join(parts)
    document = XmlFragment(text, name="text", parting=["p"], kept=["x"])
    assert document.write([document.unchanged(n) for n in range(len(document.segments))]).decode() == text
    out = document.write(small(document)).decode()
    here, there = (ElementTree.fromstring(f"<a>{each}</a>") for each in (text, out))
    assert sorted(each.tag for each in here.iter()) == sorted(each.tag for each in there.iter())
    kept = [sorted("".join(each.itertext()) for each in root.iter("x")) for root in (here, there)]
    assert kept[0] == kept[1]
    assert text.count("<!--") == out.count("<!--")


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("A <b>dog</b> &amp; cat", ["A dog & cat"]), ("<p>One</p> <p>Two <i>x</i></p>tail", ["One", "Two x", "tail"]),
        ("<d>in <p>a</p> out</d>", ["in", "a", "out"]), ("keep <x>this <p>one</p></x>", ["keep this one"]),
        ("a\nb", ["a\nb"]), ("\n a \n", ["a"]), ("<x/>", []), ("", []),
    ],
)  # fmt: skip
def test_segments(text: str, segments: list[str]) -> None:
    document = XmlFragment(text, name="text", parting=["p"], kept=["x"])
    assert [segment.text for segment in document.segments] == segments


@pytest.mark.parametrize(
    "text", ["<a>", "a & b", "&nbsp;", "</docnmt><docnmt>", '<!DOCTYPE a [<!ENTITY b "c">]>&b;', "\x01", "<a b=c/>"]
)  # fmt: skip
def test_what_is_not_well_formed_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"^text 3:"):
        XmlFragment(text, name="text 3")


def test_several_are_one_document() -> None:
    parts = [
        PlainText(b"before", name="a", languages=("", "")), HtmlFragment("<p>A <q>b</q></p>", name="b", kept=["Q"]),
        XmlFragment("", name="c"), XmlFragment("c <g>d</g>", name="d"),
    ]  # fmt: skip
    together = Fragments(parts)
    assert [segment.text for segment in together.segments] == ["before", "A b", "c d"]
    assert len({segment.units for segment in together.segments}) == 3
    found = Fragments.apart(together.write(small(together)))
    assert found == ["before", "<p><q>b</q> A</p>", "", "<g>d</g> c"]
