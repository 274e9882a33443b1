"""What of a document no model is to change: signs of captions, names of translators, other languages, prologs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from xml.etree import ElementTree

import pytest
import sample_documents
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_documents import Model, document, translate, written
from sample_packages import WORD, package, word

from docnmt.apps.commands.output import pharaoh
from docnmt.apps.documents.fragments import XmlFragment
from docnmt.apps.documents.projection import project
from docnmt.apps.documents.segments import Mark, is_reference
from docnmt.apps.documents.sentences import fixed_spans, pattern, translated
from docnmt.apps.explain.attention import AlignedPiece, _same, word_pairs
from docnmt.core.split_sentences import split_sentences
from docnmt.runtime.system import UserError


def test_another_language_of_a_page_stays_and_is_named() -> None:
    source = (
        '<html lang="en"><p lang="fr">Bonjour</p>\n<p>A <i lang="la">ad hoc</i> dog</p>\n<p xml:lang="de">Ein Hund\n'
        '<p lang="en-GB">A cat</p>\n<div lang=fr><p>Un</p><p>Deux</p></div><pre lang="js">var a</pre></html>'
    )
    asked, out = written("html", source)
    assert asked == ["A ad hoc dog", "A cat"]
    for kept in ('<p lang="fr">Bonjour</p>', '<i lang="la">ad hoc</i>', "Ein Hund", "<p>Un</p><p>Deux</p>"):
        assert kept in out
    (named,) = document("html", source).left
    assert [word.strip(",") for word in str(named).split() if word.strip(",").isdigit()] == ["1", "2", "3", "5"]
    assert written("html", '<html lang="fr"><p>A dog</p></html>')[0] == ["A dog"]  # what the page says may be wrong


@pytest.mark.parametrize(
    "prolog",
    [
        '<?xml version="1.0" encoding="UTF-8"?>\n',
        "<!DOCTYPE a>",
        '<?xml version="1.0"?><!DOCTYPE a [ <!ENTITY x "]>"> <!-- ]> --> ]>\n<!-- " -->\n',
        "<?pi ]?>",
    ],
)
def test_xml_may_have_a_prolog(prolog: str) -> None:
    fragment = XmlFragment(f"{prolog}<a>one <b>dog</b></a>", name="text 1")
    texts = translated(fragment, Model(), split=lambda line: [line] * bool(line.strip()), split_target=str.split)
    assert fragment.write(texts).decode() == f"{prolog}<a>ONE <b>DOG</b></a>"


# Documents: what stays as it was around what is translated.


@pytest.mark.parametrize("function", [str.upper, lambda text: " ".join(text.split()[::-1]), lambda text: ""])
def test_srt_dashes_stay_at_the_beginnings_of_lines(function: Callable[[str], str]) -> None:
    """Whatever the model makes of the words; it does not see them."""
    first = "1\n00:00:01,000 --> 00:00:02,000\n- The dog. It walks.\n- The cat.\n\n"
    second = "2\n00:00:03,000 --> 00:00:04,000\n<i>–Old house.</i>\n{\\an8}— A tree.\n"
    file, model = document("srt", first + second), Model(function)
    assert file.segments[0].text == "The dog. It walks.\nThe cat."
    lines = translate(file, model).decode().splitlines()
    assert [line[:2] for line in lines[2:4]] == ["- ", "- "]
    assert lines[7].startswith("<i>–")
    assert lines[8].startswith("{\\an8}— ")


DECLARED = {
    "xlf": sample_documents.XLF.replace('encoding="utf-8"?>', "encoding='utf-8' standalone=\"yes\" ?>\n<!-- kept -->"),
    "tmx": sample_documents.TMX.replace('"?>', '"  ?>').replace(' "tmx14.dtd"', "\n 'tmx14.dtd'"),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("kind", DECLARED)
def test_what_stands_before_the_root_of_xml_stays(kind: str, encoding: str, end: str) -> None:
    text = DECLARED[kind].replace("utf-8", encoding[:6].rstrip("-")).replace("\n", end)
    content = (("\ufeff" if encoding == "utf-16-be" else "") + text).encode(encoding)
    file = document(kind, content)
    written = translate(file, Model())
    root = "<xliff" if kind == "xlf" else "<tmx "
    assert written.decode(encoding).partition(root)[0] == content.decode(encoding).partition(root)[0]
    assert written[:2] == content[:2]
    assert written.decode(encoding).count("\n") == written.decode(encoding).count(end)
    assert [segment.text for segment in document(kind, written).segments] == [segment.text for segment in file.segments]


def test_an_encoding_that_python_does_not_share_is_written_all_the_same() -> None:
    content = sample_documents.TMX.replace('"?>', '" encoding="Shift_JIS"?>').replace("dog", "犬").encode("shift_jis")
    assert "THE <hi>OLD</hi> 犬" in translate(document("tmx", content), Model()).decode("shift_jis")


# References of notes and text that is not shown: what a model reads of them, and where they stand afterwards.


#: A sentence that ends with a reference, one that has one behind a word, and what follows: as text, and in each kind.
PLAIN = ["They had two rivers.", "It was small and old.", "The end."]
STYLES = f'<w:styles xmlns:w="{WORD}">{{}}</w:styles>'
ODT = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"><office:automatic-styles>'
    '<style:style style:name="S"><style:text-properties style:text-position="super 58%"/></style:style>'
    '<style:style style:name="S2" style:parent-style-name="S"/></office:automatic-styles>'
    "<office:body><office:text><text:p>{}</text:p></office:text></office:body></office:document-content>"
)


def run(text: str, look: str = "") -> str:
    """A run of Word."""
    return f'<w:r>{look and f"<w:rPr>{look}</w:rPr>"}<w:t xml:space="preserve">{text}</w:t></w:r>'


RAISED = '<w:vertAlign w:val="superscript"/>'
KINDS: dict[str, bytes] = {
    "html": b'<p>They had two rivers.<a href="n.html#n5"><sup>55</sup></a> It was small<sup><a href="#3">3</a></sup> '
    b'and old.<sup>[2]</sup><a href="#x">[3]</a> The end.<a href="#s">*</a></p>',
    "md": rb"They had two rivers.[55](#n) It was small<sup>3</sup> and old.^2^ The end.[\[3\]](#x)",
    "docx": word(
        "<w:p>" + run("They had two rivers.") + run("55", RAISED) + run(" It was small")
        + f"<w:hyperlink w:anchor='n'>{run('[3]')}</w:hyperlink>" + run(" and old.")
        + run("2", '<w:rStyle w:val="Ref"/>') + run(" The end.") + run("1", RAISED) + run(",2", RAISED) + "</w:p>",
        styles=STYLES.format(
            f'<w:style w:styleId="Up"><w:rPr>{RAISED}</w:rPr></w:style>'
            '<w:style w:styleId="Ref"><w:basedOn w:val="Up"/></w:style>'
        ),
    ),
    "odt": package({"content.xml": ODT.format(
        'They had two rivers.<text:span text:style-name="S">55</text:span> It was small<text:a xlink:href="#x">[3]'
        '</text:a> and old.<text:span text:style-name="S2"><text:a xlink:href="#y">2</text:a></text:span> The end.'
        '<text:span text:style-name="S">*</text:span>'
    )}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_reference_is_a_mark_of_its_own(kind: str) -> None:
    asked, out = written(kind, KINDS[kind])
    assert asked == PLAIN
    order = [out.index(part) for part in ("RIVERS.", "55", "IT WAS SMALL", "3", "AND OLD.", "2", "THE END.")]
    if kind in ("docx", "odt"):  # other digits stand in them
        begin = out.index("THEY")
        order = [out.index(part, begin) for part in ("RIVERS.", "55<", "SMALL", "3]", "OLD.", "2<", "END.")]
    assert order == sorted(order)


def test_references_of_word_in_runs_of_their_own_and_links_of_several() -> None:
    notes = f"{run('They had two rivers.')}{run('1', RAISED)}{run('*', RAISED)}{run(' The end.')}"
    assert written("docx", word(f"<w:p>{notes}</w:p>"))[0] == ["They had two rivers.", "The end."]
    link = f"<w:hyperlink w:anchor='n'>{run('see')}<w:r><w:tab/></w:r>{run('it')}</w:hyperlink>"
    assert written("docx", word(f"<w:p>{link}{run(' now.')}</w:p>"))[0] == ["see", "it now."]


@pytest.mark.parametrize(
    ("before", "text"),
    [
        *(("m", "2"), ("H", "2"), ("x", "10"), ("10", "6"), ("km", "2"), ("sec", "2"), ("(a+b)", "2"), ("", "1")),
        *(("the", "th"), ("word", "2020"), ("word", "-1")),
    ],
)
def test_a_power_is_no_reference(before: str, text: str) -> None:
    assert not is_reference(before, text, link=False)
    html = f"<p>It is {before}<sup>{text}</sup> now</p>".encode()
    assert written("html", html)[0] == [f"It is {before}{text} now"]


def test_hidden_text_of_word_stays_and_is_named() -> None:
    hide = '<w:style w:styleId="Off"><w:rPr><w:vanish/></w:rPr></w:style>'
    shown = '<w:vanish w:val="0"/>'
    body = run("One ") + run("not this ", "<w:vanish/>") + run("dog") + run(" nor that", '<w:rStyle w:val="Off"/>')
    source = word(f"<w:p>{body}{run(' barks', shown)}.</w:p>", styles=STYLES.format(hide))
    assert document("docx", source).left == ["word/document.xml: hidden text"]
    asked, out = written("docx", source)
    assert asked == ["One dog barks"]
    assert "not this " in out
    assert " nor that" in out
    assert out.count("<w:vanish/>") == 1
    assert not document("docx", word(f"<w:p>{run('One dog')}</w:p>")).left


def test_hidden_text_of_opendocument_stays_and_is_named() -> None:
    hide = '<style:style style:name="Off"><style:text-properties text:display="none"/></style:style>'
    one = 'One <text:span text:style-name="Off">not this </text:span>dog<text:hidden-text text:string-value="nor it"/>'
    body = ODT.replace("</office:automatic-styles>", f"{hide}</office:automatic-styles>").format(
        f'{one}</text:p><text:p text:style-name="Off">Nor that'
    )
    source = package({"content.xml": body})
    assert document("odt", source).left == ["content.xml: hidden text"]
    asked, out = written("odt", source)
    assert asked == ["One dog"]
    assert all(kept in out for kept in ("not this ", "nor it", "Nor that", "ONE ", "DOG"))


def test_a_reference_stays_at_the_end_of_its_sentence() -> None:
    """Wherever the words are aligned with: here all of a sentence with its first one."""
    source = b"<p>One two.<sup>1</sup> Three four five.<sup>2</sup><sup>3</sup> Six seven</p>"
    file = document("html", source)
    split = partial(split_sentences, language="en")
    texts = translated(
        file,
        Model(lambda text: " ".join(text.rstrip(".").split()[::-1]) + "." * text.endswith(".")),
        split=split,
        split_target=split,
        align=lambda pairs: [[(position, 0) for position in range(len(one))] for one, _ in pairs],
    )
    expected = b"<p>two One.<sup>1</sup> five four Three.<sup>2</sup><sup>3</sup> seven Six</p>"
    assert file.write(texts) == expected


# Placeholders of many systems: each comes through a model that changes every letter.


#: Placeholders that are ones wherever they stand, …
ALWAYS = [
    "{$NAME}", "{$count :number}", "{$START_BOLD_TEXT}", "__name__", "#name#", "~name~", "%%VAR%%", "[X7X]",
    "C<< a->b >>", "B<<< a >> b >>>", "{name}", "%s", "https://x.org/a", "a@b.org", "--all", "-A", "``a = ''``",
]  # fmt: skip
#: … and those that are ones in the messages of programs.
IN_MESSAGES = ["[name]", "[user_id]", "$1", "$12"]
#: What resembles one and is text.
TEXT = ["costs $100 or", "is 5~6 and", "C# and F# are", "a [long note] in", "snake_case is", "__ is",
    "the man,--and he", '"No"--then', "end.--Then", "--Ana se fue --dijo ella--", "-A ver", "-Who? -I am.", "R&D; and",
    "``No,'' he said. ``How?'' So",
]  # fmt: skip


@pytest.mark.parametrize("placeholder", [*ALWAYS, *IN_MESSAGES])
def test_a_placeholder_comes_through(placeholder: str) -> None:
    said, capitals = f"see {placeholder} here and {placeholder}", f"SEE {placeholder} HERE AND {placeholder}"
    assert json.loads(written("json", json.dumps({"a": said}))[1])["a"] == capitals
    po = f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{said}"\nmsgstr ""\n'
    assert f'"{capitals}"' in written("po", po)[1]
    if placeholder in ALWAYS:
        assert written("txt", f"{said}\n")[1] == f"{capitals}\n"


@pytest.mark.parametrize("text", [*TEXT, "see [name] on", "pays $1 million"])
def test_what_resembles_a_placeholder_is_text(text: str) -> None:
    assert not fixed_spans(text)
    if text in TEXT:
        assert not fixed_spans(text, ("message",))


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


# Pieces of XML and HTML that a program sends.


PIECES_OF_FRAGMENTS = ("dog ", "cat", " &amp; ", "ä", "日 ", ". ", "\n", "&#65;", "%s", "<!-- c -->", "<![CDATA[<x>]]>")
WORDS = st.sampled_from(PIECES_OF_FRAGMENTS)
XML = st.recursive(
    st.lists(WORDS, max_size=5).map("".join),
    lambda inside: st.tuples(st.sampled_from(["b", "g", "x", "p"]), st.lists(inside, max_size=3).map("".join)).map(
        lambda pair: f'<{pair[0]} id="1">{pair[1]}</{pair[0]}>' if pair[1] else f"<{pair[0]}/>"
    ),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=150)
@given(st.lists(XML, min_size=1, max_size=4))
def test_tags_are_there_as_often_and_it_stays_well_formed(parts: list[str]) -> None:
    text = "".join(parts)
    document = XmlFragment(text, name="text", parting=["p"], kept=["x"])
    assert document.write([document.unchanged(n) for n in range(len(document.segments))]).decode() == text
    backwards = Model(lambda line: " ".join(line.split()[::-1]))
    texts = translated(document, backwards, split=lambda line: [line] * bool(line.strip()), split_target=str.split)
    out = document.write(texts).decode()
    here, there = (ElementTree.fromstring(f"<a>{body}</a>") for body in (text, out))
    assert sorted(element.tag for element in here.iter()) == sorted(element.tag for element in there.iter())
    kept = [sorted("".join(element.itertext()) for element in root.iter("x")) for root in (here, there)]
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


# From subwords that stand for each other to pairs of words, and their lines.


def test_words_stand_between_white_space() -> None:
    source, target = "the old  dogs", " Hunde, die alten"
    pieces = [
        AlignedPiece((9, 12), (1, 5)),  # dog: Hund
        AlignedPiece((12, 13), (5, 6)),  # s: e
        AlignedPiece((4, 7), (6, 7)),  # old: the comma, which belongs to the word
        AlignedPiece((0, 3), (8, 11)),
        AlignedPiece((9, 9), (12, 12)),  # a subword that is only the space in front of a word
        AlignedPiece((13, 13), (12, 17)),  # one behind the last word
    ]
    assert word_pairs(source, target, pieces) == [(2, 0), (1, 0), (0, 1), (2, 2)]
    assert pharaoh(word_pairs(source, target, pieces)) == "2-0 1-0 0-1 2-2"
    assert word_pairs("", "", []) == []


def test_equal_pieces_are_found_in_one_pass() -> None:
    class Piece(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Piece.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    source, target = ([Piece(f"w{n}") for n in numbers] for numbers in (range(500), reversed(range(500))))
    pairs = _same([*source, Piece("w7"), Piece(".")], [*target, Piece("."), Piece("w8")])
    assert pairs == [(n, 499 - n) for n in reversed(range(500)) if n not in (7, 8)]
    assert Piece.compared < 10_000


def test_a_format_covers_characters_of_chinese_and_not_the_whole_clause() -> None:
    """A model names the first character of each subword; those behind it belong to it."""
    source, target = "A big dog runs away.", "一只大狗跑步了。"
    subwords = [(0, 0), (2, 2), (6, 2), (10, 4), (15, 4), (19, 7)]
    ((begin, end),) = project([Mark(2, 9)], source, target, subwords)
    assert target[begin:end] == "大狗"
    ((begin, end),) = project([Mark(2, 4)], target, source, [(j, i) for i, j in subwords])
    assert source[begin:end] == "big dog"


def test_names_of_translators_stay_empty_and_are_named() -> None:
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
    names = '\nmsgid "translator-credits"\nmsgstr ""\n\nmsgctxt "NAME OF TRANSLATORS"\nmsgid "Your names"\nmsgstr ""\n'
    source = f'{head}{names}\nmsgid "a dog"\nmsgstr ""\n'
    asked, out = written("po", source)
    assert asked == ["a dog"]
    assert out == source[: source.rindex('""')] + '"A DOG"\n'
    assert [str(where).split(",")[0] for where in document("po", source).left] == ["message 2", "message 3"]
    assert not document("po", source.replace('credits"\nmsgstr ""', 'credits"\nmsgstr "Ann"')).left[1:]


FIELD = [
    '<w:fldChar w:fldCharType="begin"/>', '<w:instrText> HYPERLINK "x" </w:instrText>',
    '<w:fldChar w:fldCharType="separate"/>', "<w:t>red house</w:t>", '<w:fldChar w:fldCharType="end"/>',
]  # fmt: skip


def test_a_link_whose_parts_were_inserted_one_by_one_stays_in_order() -> None:
    parts = "".join(f'<w:ins w:id="{n}"><w:r>{part}</w:r></w:ins>' for n, part in enumerate(FIELD))
    source = word(f"<w:p>{run('See ')}{parts}{run(' now.')}</w:p>")
    asked, out = written("docx", source, lambda text: " ".join(reversed(text.split())))
    assert asked == ["See red house now."]
    kinds = re.findall(r'fldCharType="(\w+)"', out)
    assert kinds == ["begin", "separate", "end"]
    link = out[out.index("separate") : out.index('"end"')]
    assert re.findall(r"<w:t[^>]*>([^<]*)", link)


def test_a_text_box_beside_a_field_in_one_run_is_translated() -> None:
    box = f"<w:drawing><w:txbxContent><w:p>{run('a box')}</w:p></w:txbxContent></w:drawing>"
    asked, out = written("docx", word(f"<w:p>{run('See ')}<w:r>{FIELD[0]}{box}{FIELD[-1]}</w:r></w:p>"), str.upper)
    assert "a box" in asked
    assert "A BOX" in out
    assert "a box" not in out


def test_pages_of_asia_are_in_the_encodings_of_browsers() -> None:
    for name, code, sign in (("shift_jis", "cp932", "①"), ("gb2312", "gb18030", "镕"), ("euc-kr", "cp949", "똠")):
        source = f'<meta charset="{name}"><p>{sign} a</p>'.encode(code)
        assert translate(document("html", source), Model()) == source.replace(b" a", b" A")
