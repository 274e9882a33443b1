"""What of a document no model is to change: signs of captions, names of translators, other languages, prologs."""

from __future__ import annotations

import pytest
from sample_documents import Model, document, translate

from docnmt.apps.documents.fragments import XmlFragment
from docnmt.apps.documents.sentences import translated
from docnmt.runtime.system import UserError

TIMES = "1\n00:00:01,000 --> 00:00:03,000\n"


def both(kind: str, source: str) -> tuple[list[str], str]:
    """What a model reads of a document, and the document when all its letters are capitals."""
    model = Model()
    out = translate(document(kind, source), model).decode()
    return [sentence.text for sentence in model.asked[0]], out


def test_speakers_of_captions_stay_in_their_lines() -> None:
    source = f"{TIMES}>> Good evening to all of you who are here.\n>> MARY: Hello John.\n&gt;&gt; Fine.\n"
    asked, out = both("srt", source)
    assert asked == ["Good evening to all of you who are here.", "MARY: Hello John.", "Fine."]
    lines = out.split("\n")[2:]
    assert [line[:3] for line in lines if line] == [">> ", ">> ", "&gt"]
    asked, out = both("srt", f"{TIMES}>>> Now the weather on Monday\nfor all of you in the town.\n")
    assert asked == ["Now the weather on Monday for all of you in the town."]
    assert out.split("\n")[2].startswith(">>> NOW")
    assert out.count(">>>") == 1


@pytest.mark.parametrize(("kind", "head"), [("srt", TIMES), ("vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n")])
def test_references_to_characters_are_read_and_written(kind: str, head: str) -> None:
    asked, out = both(kind, f"{head}Tom &amp; Anna say &quot;hi&quot; to R&amp;D\n")
    assert asked == ['Tom & Anna say "hi" to R&D']
    assert out == f'{head}TOM &amp; ANNA SAY "HI" TO R&amp;D\n'
    asked, out = both(kind, f"{head}see &amp;lt; here\n")  # which means another thing when it is decoded
    assert out.lower() == f"{head}see &amp;lt; here\n".lower()
    assert both(kind, f"{head}AT&T and co\n")[1] == f"{head}AT&T AND CO\n"


def test_a_file_without_references_gets_none() -> None:
    model = Model(lambda text: text.replace("and", "&"))
    assert translate(document("srt", f"{TIMES}Tom and Anna\n"), model).decode().endswith("Tom & Anna\n")
    used = f"{TIMES}Tom &amp; Jim\n\n{TIMES.replace('1', '2', 1)}Tom and Anna\n"
    assert translate(document("srt", used), model).decode().endswith("Tom &amp; Anna\n")


ASS = "[Script Info]\n\n[Events]\nFormat: Layer, Text\n"


def test_drawings_of_ass_stay_and_text_beside_them_is_read() -> None:
    source = ASS + "Dialogue: 0,{\\p1}m 0 0 l 9 9{\\i1}{\\p0}Label\\hone{\\p2}m 1 1\nDialogue: 0,{\\p1\\bord0}m 0 0 s\n"
    asked, out = both("ass", source)
    assert asked == ["Label\u00a0one"]
    assert out == source.replace("Label\\hone", "LABEL\\hONE")


def test_breaks_and_hard_spaces_of_ass_in_srt() -> None:
    source = f"{TIMES}Ten\\hkm on the way to the very old town,\\Nand then we go on and on again.\n"
    asked, out = both("srt", source)
    assert asked == ["Ten\u00a0km on the way to the very old town, and then we go on and on again."]
    assert out.replace("\\N", " ").split(" ") == source.upper().replace("\\N", " ").replace("\\H", "\\h").split(" ")
    assert out.count("\\N") == 1
    assert both("srt", f"{TIMES}see C:\\New\\help now\n")[1] == f"{TIMES}SEE C:\\New\\help NOW\n"


@pytest.mark.parametrize("kind", ["txt", "json", "po", "srt"])
def test_no_break_spaces_of_text_stay(kind: str) -> None:
    said = "see 10\u00a0km here"
    frames = {
        "json": '{"a": "%s"}',
        "po": 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "%s"\nmsgstr ""\n',
        "srt": f"{TIMES}%s\n",
    }
    asked, out = both(kind, frames.get(kind, "%s\n") % said)
    assert asked == [said]
    assert said.upper() in out


def test_names_of_translators_stay_empty_and_are_named() -> None:
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
    names = '\nmsgid "translator-credits"\nmsgstr ""\n\nmsgctxt "NAME OF TRANSLATORS"\nmsgid "Your names"\nmsgstr ""\n'
    source = f'{head}{names}\nmsgid "a dog"\nmsgstr ""\n'
    asked, out = both("po", source)
    assert asked == ["a dog"]
    assert out == source[: source.rindex('""')] + '"A DOG"\n'
    assert [str(place).split(",")[0] for place in document("po", source).left] == ["message 2", "message 3"]
    assert not document("po", source.replace('credits"\nmsgstr ""', 'credits"\nmsgstr "Ann"')).left[1:]


def test_another_language_of_a_page_stays_and_is_named() -> None:
    source = (
        '<html lang="en"><p lang="fr">Bonjour</p>\n<p>A <i lang="la">ad hoc</i> dog</p>\n<p xml:lang="de">Ein Hund\n'
        '<p lang="en-GB">A cat</p>\n<div lang=fr><p>Un</p><p>Deux</p></div><pre lang="js">var a</pre></html>'
    )
    asked, out = both("html", source)
    assert asked == ["A ad hoc dog", "A cat"]
    for kept in ('<p lang="fr">Bonjour</p>', '<i lang="la">ad hoc</i>', "Ein Hund", "<p>Un</p><p>Deux</p>"):
        assert kept in out
    (named,) = document("html", source).left
    assert [word.strip(",") for word in str(named).split() if word.strip(",").isdigit()] == ["1", "2", "3", "5"]
    assert both("html", '<html lang="fr"><p>A dog</p></html>')[0] == ["A dog"]  # what the page says may be wrong


XLIFF = (
    '<xliff version="1.2"><file original="a" source-language="en" target-language="de" datatype="x"><body>%s</body>'
    "</file></xliff>"
)


def test_bounds_of_xliff_are_told() -> None:
    unit = '<trans-unit id="%s" maxwidth="%d" %s><source>a dog</source></trans-unit>'
    units = unit % ("u1", 4, 'size-unit="char"'), unit % ("u2", 5, 'size-unit="char"'), unit % ("u3", 4, "")
    found = document("xlf", XLIFF % "".join(units))
    assert not found.notes
    translate(found, Model())
    (told, unchecked) = found.notes
    assert "'u1'" in told
    assert unchecked.startswith("1 ")
    found = document("xlf", XLIFF % units[1])
    translate(found, Model())
    assert not found.notes


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
    def translate(sentences):  # type: ignore[no-untyped-def]
        return (each.text.upper() for each in sentences)

    fragment = XmlFragment(f"{prolog}<a>one <b>dog</b></a>", name="text 1")
    found = translated(fragment, translate, split=lambda line: [line] * bool(line.strip()), split_target=str.split)
    assert fragment.write(found).decode() == f"{prolog}<a>ONE <b>DOG</b></a>"


@pytest.mark.parametrize(
    "text", ["<!DOCTYPE a", "<!DOCTYPE a [", '<!DOCTYPE a "', "<?xml", "<!-- a", "<!DOCTYPE a []>\n<a>&x;</a>"]
)
def test_a_prolog_that_does_not_end_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        XmlFragment(text, name="text 1")
