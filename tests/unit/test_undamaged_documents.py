"""What people's documents have beyond the plain formats: it stays in its place, and the model reads sentences."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import zipfile
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from sample_documents import Model, document, translate, written
from sample_packages import WORD, word

from docnmt.apps.documents.kinds import read
from docnmt.apps.documents.segments import Translated
from docnmt.apps.documents.text import display_width, wrapped
from docnmt.runtime.system import UserError

HEAD = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
ASS = "[Events]\nFormat: Layer, Text\n"
TIMES = "1\n00:00:01,000 --> 00:00:03,000\n"
XLF = '<xliff version="1.2"><file source-language="en" target-language="de" original="x"><body>{}</body></file></xliff>'
XLF2 = (
    '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="de"><file id="f">'
    '<unit id="1"><segment><source>{}</source></segment></unit></file></xliff>'
)
ODF = 'xmlns:{0}="urn:oasis:names:tc:opendocument:xmlns:{0}:1.0"'
FODT = f"<office:document {ODF.format('office')} {ODF.format('text')}><office:body><office:text>{{}}</office:text>"
FODT += "</office:body></office:document>"
UNIT = "<trans-unit><source>{}</source></trans-unit>"
DIVIDED = (
    "<trans-unit><source>Yes. No.</source><seg-source><mrk mtype='seg' mid='1'>Yes.</mrk> <mrk mtype='seg' mid='2'>No."
    "</mrk></seg-source>{}</trans-unit>"
)


def entry(text: str, flags: str = "") -> str:
    """A message of PO."""
    return f'{HEAD}{flags}msgid "{text}"\nmsgstr ""\n'


def field(code: str) -> str:
    """A field of Word that shows nothing yet, with all of it in one run."""
    kinds = [f'<w:fldChar w:fldCharType="{kind}"/>' for kind in ("begin", "separate", "end")]
    return f"{kinds[0]}<w:instrText>{code}</w:instrText>{kinds[1]}{kinds[2]}"


def paragraph(*runs: str) -> str:
    """A paragraph of Word."""
    return f"<w:p>{''.join(f'<w:r>{run}</w:r>' for run in runs)}</w:p>"


def text(words: str) -> str:
    """Text of a run."""
    return f'<w:t xml:space="preserve">{words}</w:t>'


#: Kind, input, the output or parts of it when the letters of all texts are capitals, and what the model must read.
KEPT: list[tuple[str, str, str | list[str], list[str]]] = [
    ("md", "!!! note\n\n    One.\n\n      Two.\n", ["    ONE.\n\n      TWO.\n"], ["One.", "Two."]),
    ("xlf", XLF.format(UNIT.format("{n, plural, one {<g id='1'>a car</g>} other {# cars}}")),
     ['{n, plural, one {<g id="1">A CAR</g>} other {# CARS}}</target>'], ["a car", "# cars"]),
    ("md", "See https://h.org/{{ a.b }}/c.\n", ["https://h.org/{{ a.b }}/c"], ["See https://h.org/{{ a.b }}/c."]),
    ("md", '+++\nname = "old"\n+++\n\nOne.\n', ['+++\nname = "old"\n+++\n\nONE.\n'], ["One."]),
    ("md", ":class: A name.\n:name: Two.\n\n:one: is.\n", [":class: A NAME.\n:name: TWO.\n\n"], ["A name.", "Two."]),
    ("vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nTea &lrm;. One &amp; two.\n", ["TEA \u200e. ONE &amp; TWO."], []),
    ("srt", "1\n00:00:01,000 --> 00:00:03,000\n>> Good evening.\n&gt;&gt; Tom &amp; Anna go.\n>>> Now.\nOne.\\NTwo.\n",
     [">> GOOD EVENING.\n&gt;&gt; TOM &amp; ANNA GO.\n>>> NOW."],
     ["Good evening.", "Tom & Anna go.", "Now.", "One.", "Two."]),
    ("srt", f"{TIMES}Ten\\hkm,\\Nsee C:\\New\\help, &amp;lt; and R&D\n",
     ["TEN\\hKM, SEE C:\\New\\help, &amp;lt; AND R&amp;D\n"],
     ["Ten\u00a0km, see C:\\New\\help, &lt; and R&D"]),
    ("srt", f"{TIMES}>>> Now the weather on Monday\nfor all of you in the town.\n",
     [">>> NOW THE WEATHER ON MONDAY\nFOR ALL"], ["Now the weather on Monday for all of you in the town."]),
    ("po", entry("see 10\u00a0km &quot;here"), ["SEE 10\u00a0KM"], ["see 10\u00a0km &quot;here"]),
    ("md", '{\n "name": "old"\n}\nOne.\n', ['{\n "name": "old"\n}\nONE.\n'], ["One."]),
    ("md", "> [!TIP] A title\n> Drink it.\n", ["> [!TIP] A TITLE\n> DRINK IT.\n"], ["A title", "Drink it."]),
    ("md", "::: tip A title\nDrink it.\n:::\n", ["::: tip A TITLE\nDRINK IT.\n:::\n"], ["A title", "Drink it."]),
    ("md", ":::{note}\n:name: x\nDrink it.\n:::\n", [":::{note}\n:name: x\nDRINK IT.\n:::\n"], ["Drink it."]),
    ("md", "Tea\n: A drink.\n: A leaf.\n", ["TEA\n: A DRINK.\n: A LEAF.\n"], ["Tea", "A drink.", "A leaf."]),
    ("md", '!!! note "A title"\n\n    Drink it.\n',
     ['!!! note "A TITLE"\n\n    DRINK IT.\n'], ["A title", "Drink it."]),
    ("md", "A[^n].\n\n[^n]: One.\n\n    Two.\n", ["A[^n].\n\n[^n]: ONE.\n\n    TWO.\n"], ["A.", "One.", "Two."]),
    ("md", "<div>\n<svg><text>a</text></svg> One <script>\nb = 1\n</script>\n</div>\n",
     ["<div>\n<svg><text>a</text></svg> ONE <script>\nb = 1\n</script>\n</div>\n"], ["One"]),
    ("md", "Tap <img src=x> and <i class=y></i> or <a-b/>, <a id=c></a>it.\n",
     ["TAP <img src=x> AND <i class=y></i> OR <a-b/>, <a id=c></a>IT.\n"], ["Tap {0} and {1} or {2}, it."]),
    ("mdx", "Tap <Icon n={1}/> or {a + <b/>} {/* c */} in <A.B>it</A.B> now.\n",
     ["TAP <Icon n={1}/> OR {a + <b/>}", "{/* c */} IN <A.B>IT</A.B> NOW.\n"], ["Tap {0} or {1} in it now."]),
    ("md", "If $x_1 < \\beta$ holds,\nso does \\(a\\_b\\) here.\n",
     ["IF $x_1 < \\beta$ HOLDS, SO DOES \\(a\\_b\\) HERE."],
     ["If {0} holds, so does {1} here."]),
    ("md", "$$\nx\\,y\n$$\n\n\\[\nx\n\\]\n\nOne.\n", ["$$\nx\\,y\n$$\n\n\\[\nx\n\\]\n\nONE.\n"], ["One."]),
    ("md", "# Tea [![a](b)](x) [![c](d)](y)\n", ["# TEA [![a](b)](x) [![c](d)](y)\n"], ["Tea"]),
    ("mdx", "Hi.\n\nexport. Then on.\n", ["HI.\n\nEXPORT. THEN ON.\n"], ["export."]),
    ("mdx", "<div>\n  <p>\n    ```sh\n    go\n    ```\n  </p>\n</div>\n\nGo.\n",
     ["```sh\n    go\n    ```", "GO."], ["Go."]),
    ("md", "<!-- tea -->\n\n:   <!-- a --> A\n    *drink*.\n\n    !!! note\n\n        Boil it.\n",
     [":   <!-- a --> A *DRINK*.\n", "    !!! note\n\n        BOIL IT.\n"], ["A drink.", "Boil it."]),
    ("md", "See <code>the *tea*</code>, <kbd>Go</kbd>, <b translate=no>Tea</b>.\n",
     ["SEE <code>the *tea*</code>, <kbd>Go</kbd>, <b translate=no>Tea</b>."], ["See the tea, Go, Tea."]),
    ("md", "- :sun: One\n  - :moon: Two\n", ["- :sun: ONE\n  - :moon: TWO\n"], [":sun: One", ":moon: Two"]),
    ("md", "# Tea {#tea}\n\n[A](b){.c} d.\n", ["# TEA {#tea}\n\n[A](b){.c} D.\n"], ["A d."]),
    ("md", "{{< code-toggle >}}\nred = 1\n{{< /code-toggle >}}\n\nOne.\n", ["red = 1", "ONE."], ["One."]),
    ("md", "Tea^[A *red* drink.] helps.\n", ["TEA^[A *RED* DRINK.] HELPS."], ["Tea", "A red drink."]),
    ("html", "<p>Take <i class='tea'></i> it, or <a href=x><img src=y></a> that.</p>",
     ["TAKE <i class='tea'></i> IT, OR <a href=x><img src=y></a> THAT."], ["Take {0} it, or {1} that."]),
    ("html", "<p>One <i lang=en-GB class=a>two</i> three.</p>",
     ["<p>ONE <i lang=de class=a>TWO</i> THREE.</p>"], ["One two three."]),
    ("mdx", "<Tabs>\n  <Item a={1}>\n    ```sh\n    go\n    ```\n    Go on.\n  </Item>\n</Tabs>\n",
     ["    ```sh\n    go\n    ```\n    GO ON.\n  </Item>\n</Tabs>\n"], ["Go on."]),
    ("strings", '"a" = "Go\non.";\n"b" = "Go\\nby.";\n', ['"GO\nON."', '"GO\\nBY."'], ["Go", "on.", "Go", "by."]),
    ("html", "<p>Press <button>Go</button> now.</p>", ["PRESS <button>GO</button> NOW."], ["Press Go now."]),
    ("html", "<p>A <ruby>cat<rp>(</rp><rt>kat<rp>)</rp></ruby> in <x-town>Rome</x-town> now.</p>",
     ["A <ruby>CAT<rp>(</rp><rt>kat<rp>)</rp></ruby> IN <x-town>ROME</x-town> NOW."], ["A cat in Rome now."]),
    ("html", "<meta name=description content='A &quot;b&quot;'>"
             "<p>See <a lang=en title=up><img alt='a b' src=c></a> it.",
     ["content='A \"B\"'", "SEE <a lang=de title=\"UP\"><img alt='A B' src=c></a> IT."], ['A "b"', "up", "a b"]),
    ("html", "<div translate=no lang=en><i lang=en title=b>a</i></div><textarea placeholder=b>c</textarea>"
             "<input value=b><input type=Submit value=b><option label=b value=b><link title=b>",
     ["<div translate=no lang=en><i lang=en title=b>a</i></div><textarea placeholder=\"B\">c</textarea>"
      '<input value=b><input type=Submit value="B"><option label="B" value=b><link title=b>'], ["b", "b", "b"]),
    ("html", "<head><noscript><style>p {}</style></noscript></head>a<noscript>b</noscript><template><p>c</template>",
     ["<style>p {}</style></noscript></head>A<noscript>B</noscript><template><p>C</template>"], ["a", "b", "c"]),
    ("html", "<html lang=en-GB><p lang='fr'>Un</p><p>Ten&nbsp;km, sum&shy;mer, a \u200eb.</p>",
     ["<html lang=de>", "lang='fr'", "TEN\u00a0KM, SUMMER, A \u200eB."], ["Ten\u00a0km, summer, a b."]),
    ("xlf", XLF.format(UNIT.format('Dear <x id="NAME"/>, see <x id="N"/>.')),
     ['DEAR <x id="NAME"/>, SEE <x id="N"/>.</target>'], ["Dear {0}, see {1}."]),
    ("xlf", XLF.format(UNIT.format('Dear <x id="N" equiv-text="{{name}}"/>, <x id="B" equiv-text="&lt;b&gt;"/>go'
                                   '<x id="C" equiv-text="&lt;/b&gt;"/> now.')),
     ['<x id="B" equiv-text="&lt;b&gt;"/>GO<x id="C"'],
     ["Dear {{name}}, go now."]),
    ("xlf", XLF.format(UNIT.format("{n, plural, one {# cat} other {&lt;b> # cats}} since {0,date}")),
     ["{n, plural, one {# CAT} other {&lt;b&gt; # CATS}} SINCE {0,date}</target>"], ["# cat"]),
    ("xlf", XLF.format(UNIT.format('The <mrk mtype="protected">Red Cat</mrk> key.')),
     ['THE <mrk mtype="protected">Red Cat</mrk> KEY.'], ["The Red Cat key."]),
    ("xlf", XLF.format(DIVIDED.format("<target><mrk mtype='seg' mid='1'>Ja.</mrk></target>")),
     ['<mrk mtype="seg" mid="1">Ja.</mrk> <mrk mtype="seg" mid="2">NO.</mrk></target>'], ["No."]),
    ("xlf", XLF.format(DIVIDED.format("")),
     ['review-translation"><mrk mtype="seg" mid="1">YES.</mrk> <mrk mtype="seg" mid="2">NO.</mrk></target>'],
     ["Yes.", "No."]),
    ("xlf", XLF2.format('The <mrk id="m" translate="no">Red Cat</mrk> key.'),
     ['<target>THE <mrk id="m" translate="no">Red Cat</mrk> KEY.</target>'], ["The Red Cat key."]),
    ("xlf", XLF2.format('The <pc id="1">old dog</pc> sees<ph id="2"/>.'),
     ['<target>THE <pc id="1">OLD DOG</pc> SEES<ph id="2"/>.</target>'], ["The old dog sees."]),
    ("po", entry("Size %dx%d, %.2fs, 7%% off", "#, c-format\n"), ["SIZE %dX%d, %.2fS, 7%% OFF"], []),
    ("po", entry("Name %r is old", "#, python-format\n"), ["NAME %r IS OLD"], []),
    ("po", entry("Wait %hours% hours, %{n} left, @who and :when"),
     ["WAIT %hours% HOURS, %{n} LEFT, @who AND :when"], []),
    ("po", entry("You have {n, plural, =0 {no cat} other {# cats}} now."),
     ["YOU HAVE {n, plural, =0 {NO CAT} other {# CATS}} NOW."], ["You have", "no cat", "# cats"]),
    ("po", entry("See :doc:`the book <b>`, ``x y`` and |z|."), ["SEE :doc:`the book <b>`, ``x y`` AND |z|."], []),
    ("po", entry("A {{ x|y }} and <%= z %> in {% if a %}b"), ["A {{ x|y }} AND <%= z %> IN {% if a %}B"], []),
    ("po", entry("{n, choice, 0#no cat|1<{n} cats} of {m, plural, other {it''s {0}}}"),
     ["{n, choice, 0#NO CAT|1<{n} CATS} OF {m, plural, other {IT''S {0}}}"], ["no cat", "{n} cats", "it''s {0}"]),
    ("xml", "<resources><string name='a'><![CDATA[<a href=\"x\">It</a> is <b class=\\\"y z\\\">\"big\"</b>]]></string>"
            "</resources>", ['<![CDATA[<a href="x">IT</a> IS <b class=\\"y z\\">BIG</b>]]>'], []),
    ("json", '{"a": "Click <0>here, $WHO$</0><1/>, {{{x}}} ${{ y }} #{z} @:the.key @.lower:(k)"}',
     ["CLICK <0>HERE, $WHO$</0><1/>, {{{x}}} ${{ y }} #{z} @:the.key @.lower:(k)"], []),
    ("yaml", "a: img/logo.png\nb: Run /usr/bin/env, C:\\temp or ./x.sh in Node.js, #ff0000\n",
     ["a: img/logo.png\nb: RUN /usr/bin/env, C:\\temp OR ./x.sh IN Node.js, #ff0000\n"], []),
    ("properties", "a={0,choice,0#no file|1#one|1<{0} files} of {1}, it''s\n",
     ["a={0,choice,0#NO FILE|1#ONE|1<{0} FILES} OF {1}, IT''S\n"], ["no file", "one", "{0} files"]),
    ("vtt", "WEBVTT\nLanguage: en-US\n\n00:01.000 --> 00:02.000\n<v A>It <c.b.c>is</c>\n<v B>so?\n",
     ["WEBVTT\nLanguage: de\n\n", "<v A>IT <c.b.c>IS</c>\n<v B>SO?\n"], ["It is", "so?"]),
    ("srt", "1\n00:00:01,000 --> 00:00:02,000\nANN: See\nit.\nMR. B: Ah.\n[sighs]\n<i>(RAIN)</i>\nSo (it)\n(was).\n",
     ["\nANN: SEE IT.\nMR. B: AH.\n[SIGHS]\n<i>(RAIN)</i>\nSO (IT) (WAS).\n"],
     ["ANN: See it.", "MR. B: Ah.", "[sighs]", "(RAIN)", "So (it) (was)."]),
    ("ass", ASS + "Dialogue: 0,{\\p1}m 0 0{\\i1}{\\p0}Label\\hone{\\p2}m 1 1\nDialogue: 0,{\\p1}m 0 s\n",
     ["Dialogue: 0,{\\p1}m 0 0{\\i1}{\\p0}LABEL\\hONE{\\p2}m 1 1\nDialogue: 0,{\\p1}m 0 s\n"], ["Label\u00a0one"]),
    ("json", '{"a": "$1 sent {{PLURAL:$1|0=none|one dog|$1 {{GENDER:$2|his|her}} dogs}} to [[Page on|it]]"}',
     ['{"a": "$1 SENT {{PLURAL:$1|0=NONE|ONE DOG|$1 {{GENDER:$2|HIS|HER}} DOGS}} TO [[Page on|it]]"}'],
     ["none", "one dog", "his", "her"]),
    ("json", '{"a": ".input {$n :number}\\n.match $n\\none {{one dog {#b}on{/b}}}\\n* {{ {$n} dogs }}"}',
     ['{"a": ".input {$n :number}\\n.match $n\\none {{ONE DOG {#b}ON{/b}}}\\n* {{ {$n} DOGS }}"}'], ["{$n} dogs"]),
    ("vtt", "WEBVTT\n00:01.000 --> 00:02.000\na dog\n00:02.000 --> 00:03.000\na & cat\n\n00:03.000 --> 00:04.000\n",
     ["\nA DOG\n00:02.000 --> 00:03.000\nA & CAT\n\n00:03.000 --> 00:04.000\n"], ["a dog", "a & cat"]),
    ("po", '\ufeffmsgid "Hello."\nmsgstr ""\n\n#: b.c:1\nmsgctxt ""\n"long context"\nmsgid "World."\nmsgstr ""\n',
     ['\ufeffmsgid "Hello."\nmsgstr "HELLO."\n\n#: b.c:1\nmsgctxt ""\n"long context"\nmsgid "World."\nmsgstr "WORLD."'],
     ["Hello.", "World."]),
    ("po", f'{HEAD}msgid "foo"\nmsgid_plural "foos"\nmsgstr[1] ""\nmsgstr[0] ""\n',
     ['"foos"\nmsgstr[1] "FOOS"\nmsgstr[0] "FOO"\n'], ["foo", "foos"]),
    ("html", "<p>空，表1<i class=a></i>の b</p>", ["空，表1<i class=a></i>の B"], []),
    ("txt", "Name:     Bob  is here.  Yes.\n", ["NAME:     BOB  IS HERE.  YES.\n"], ["Name:"]),
    ("html", '<meta charset="utf-16"><p>A dog</p>', '<meta charset="utf-16"><p>A DOG</p>', []),
    ("vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n<i>One\n\n00:03.000 --> 00:04.000\ntwo</i> &lt;b>\n",
     "WEBVTT\n\n00:01.000 --> 00:02.000\n<i>ONE\n\n00:03.000 --> 00:04.000\nTWO</i> &lt;b>\n", []),
    ("html", "<p>un<wbr>do <b>i</b>t</p>", "<p>UN<wbr>DO <b>I</b>T</p>", ["undo it"]),
    ("yaml", "a: &x # why\n  one dog\n", "a: &x # why\n  ONE DOG\n", []),
    ("txt", "one\fdog\n", "ONE\fDOG\n", []),
    ("srt", f"{TIMES}-5 degrees, dogs -\n-\n", [f"{TIMES}-5 DEGREES, DOGS -\n-\n"], ["-5 degrees, dogs -"]),
    ("xlf", XLF.format('<trans-unit xml:space="preserve"><source>a    b\tc</source></trans-unit>'),
     [">A    B\tC</target>"], []),
    ("fodt", FODT.format("<text:p>See <text:bookmark-ref>Part 3</text:bookmark-ref> now</text:p>"),
     ["SEE <text:bookmark-ref>Part 3</text:bookmark-ref> NOW"], ["See Part 3 now"]),
    ("fodt", FODT.format('<text:p>A<text:s text:c="2"/>dog<text:s/>and a cat.</text:p>'),
     ['<text:p>A<text:s text:c="2"/>DOG AND A CAT.</text:p>'], ["A", "dog and a cat."]),
    ("fodt", FODT.format("<text:p>A <office:annotation><text:p>no</text:p></office:annotation><text:span>dog"
                         "</text:span></text:p>"),
     ["<office:annotation><text:p>no</text:p></office:annotation><text:span>DOG</text:span>"], ["A dog"]),
    ("json", '{\n // a "dog" {\n "a": "see // it", /* "b": "no",\n */ "c": [\n  "two" // ,\n ,],\n}\n',
     '{\n // a "dog" {\n "a": "SEE // IT", /* "b": "no",\n */ "c": [\n  "TWO" // ,\n ,],\n}\n', []),
    ("md", "---\n\none two\n\n---\n\nthree\n", "---\n\nONE TWO\n\n---\n\nTHREE\n", ["one two", "three"]),
    ("md", r"so $x^2$\.", r"SO $x^2$\.", []), ("md", r"the \[in\] and `y`\!", r"THE \[IN\] AND `y`\!", []),
    ("md", r"1\. a $x$\. b", r"1\. A $x$\. B", []), ("md", r"a \\ b\!", "A \\ B\\!", []),
    ("md", "![An image](a.png) The text.\n", "![An image](a.png) THE TEXT.\n", []),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "source", "stays", "seen"), KEPT, ids=lambda value: str(value)[:30])
def test_what_is_no_text_stays_in_its_place(kind: str, source: str, stays: str | list[str], seen: list[str]) -> None:
    file, model = document(kind, source), Model()
    written = translate(file, model).decode()
    assert written == stays if isinstance(stays, str) else all(part in written for part in stays), written
    asked = [sentence.text for sentence in model.asked[0] if sentence.given is None]
    assert [sentence for sentence in asked if sentence in seen] == seen
    assert bool(file.left) == ("lang='fr'" in source)  # which is named


@pytest.mark.parametrize(
    ("source", "answer", "written"),
    [
        ("- \\[tea\\] a\n", "[tea] a", "- \\[tea\\] a\n"),
        ("- a \\[tea\\]\n", "[tea]", "- &#91;tea\\]\n"),  # \\[tea\\] would be a formula
        ("One.\n\nTwo:\n", ": two", "\\: two\n\n\\: two\n"),  # : after a paragraph would define it
        ("Two &lt;b&gt; *x*\n", "a <b>", "a &lt;b&gt;\n"),
        ("As of <!-- v 1 -->, it is.\n", "Ja. it", "Ja.<!-- v 1 --> it\n"),
        ("- [x] Tea _is_\n", "a.", "- [x] a.\n"),  # _._ would be text
    ],
)
def test_what_would_be_markup_is_written_as_text(source: str, answer: str, written: str) -> None:
    assert translate(document("md", source), Model(lambda text: answer)).decode() == written


@pytest.mark.parametrize("source", ["%s and %d.", "%d%% of %s", "Nothing", "{} of {}", "%(a)s or %r", "100 % of it"])
@pytest.mark.parametrize("flag", ["c", "python", "python-brace"])
@pytest.mark.parametrize("answer", ["Ja.", "{} 5 % so {", "%d %s", "%s %s %%"])
def test_msgfmt_takes_whatever_the_model_writes(source: str, flag: str, answer: str) -> None:
    if shutil.which("msgfmt") is None:
        pytest.skip("msgfmt is not installed")
    if subprocess.run(["msgfmt", "-c", "-o", "-", "-"], input=entry(source, f"#, {flag}-format\n").encode(),
                      capture_output=True, check=False).returncode:  # fmt: skip
        return
    written = translate(document("po", entry(source, f"#, {flag}-format\n")), Model(lambda text: answer))
    done = subprocess.run(["msgfmt", "-c", "-o", "-", "-"], input=written, capture_output=True, check=False)
    assert done.returncode == 0, (written.decode(), done.stderr)


@pytest.mark.parametrize(("language", "forms"), [("de", 2), ("ru", 3), ("ja", 1), ("ar", 6), ("zh", 1), ("no", 2)])
def test_a_template_gets_the_header_and_the_plural_forms_of_the_target(language: str, forms: int) -> None:
    template = (
        '#, fuzzy\nmsgid ""\nmsgstr ""\n"Language: \\n"\n"Content-Type: text/plain; charset=CHARSET\\n"\n'
        '"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"\n\n#, c-format\nmsgid "a cat"\n'
        'msgid_plural "%d cats"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    )
    file = read(template.encode(), "po", name="x.pot", source_lang="en", target_lang=language)
    written = translate(file, Model()).decode()
    assert written.count("msgstr[") == forms
    assert f'"Language: {language}\\n"' in written
    assert "charset=UTF-8" in written
    assert f"nplurals={forms};" in written
    assert "fuzzy" not in written
    singular = '"A CAT"' in written
    assert singular == (language in ("de", "ar", "no"))  # elsewhere the form of 1 is also that of 21, or of all


@pytest.mark.parametrize(("charset", "there"), [("ISO-8859-1", "Käse"), ("KOI8-R", "Сыр"), ("CP1251", "Сыр")])
def test_messages_in_other_charsets_are_read_and_written(charset: str, there: str) -> None:
    source = f'# \u00a9\n{HEAD}msgid "Cheese"\nmsgstr "{there}"\n\nmsgid "Tea"\nmsgstr ""\n'.replace("UTF-8", charset)
    content = source.encode(charset, "replace")
    file, model = document("po", content), Model()
    assert translate(file, model) == content.replace(b'"Tea"\nmsgstr ""', b'"Tea"\nmsgstr "TEA"')
    assert file.segments[0].translation == there
    written = translate(file, Model(lambda text: "„茶“"))  # the charset does not have it
    assert 'charset=UTF-8\\n"' in written.decode()
    assert f'msgstr "{there}"' in written.decode()
    assert 'msgstr "„茶“"' in written.decode()


#: Paragraphs of Word: what of the translation must be there, and what the model must read.
WORDS = [
    (paragraph(text("Page ") + field("PAGE") + text(" of ") + field("NUMPAGES") + text(".")), ["PAGE ", " OF "],
     ["Page {0} of {1}."]),
    (paragraph(text("A "), f"<w:ruby><w:rt><w:r>{text('kat')}</w:r></w:rt><w:rubyBase><w:r>{text('cat')}</w:r>"
               "</w:rubyBase></w:ruby>", text(" here.")), [">kat<", ">CAT<"], ["A cat here."]),
    (paragraph(text("  One.  Two"), text("   ")), [">  <", ">ONE.  TWO<", ">   <"], ["One.", "Two"]),
    (f"<w:p><w:r>{text('See page ')}</w:r><w:fldSimple><w:r>{text('3')}</w:r></w:fldSimple></w:p>",
     [">3<", "SEE PAGE "], ["See page 3"]),
    (paragraph(text("A so\u00adlid ten\u00a0km.")), [">A SOLID TEN\u00a0KM.<"], ["A solid ten\u00a0km."]),
    (paragraph(text("See "), '<w:drawing><x:docPr xmlns:x="x" id="1" name="no" descr="A &lt; cat"/></w:drawing>',
               text(" it.")) + paragraph('<w:pict><v:shape xmlns:v="v" id="no" alt="dog"><v:textpath string="Draft"/>'
               "</v:shape></w:pict>"),
     ['id="1" name="no" descr="A &lt; CAT"', 'alt="DOG"', 'string="DRAFT"'], ["See it.", "A < cat", "dog", "Draft"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "stays", "seen"), WORDS, ids=range(len(WORDS)))
def test_fields_ruby_pictures_and_spaces_of_word(body: str, stays: list[str], seen: list[str]) -> None:
    asked, out = written("docx", word(body))
    assert asked == seen
    assert all(part in out for part in stays), out
    assert out.count("fldChar") == body.count("fldChar")


CHART, NUMBERS = "<c><t>Sales</t></c>", '<n><w:lvlText w:val="%1."/><w:lvlText w:val="{}%1"/></n>'
LEFT: list[tuple[str, str | bytes, list[str]]] = [
    ("docx", word("<w:altChunk/>" + paragraph(text("One.")), charts__chart1=CHART, diagrams__data1=CHART,
                  comments=CHART, numbering=NUMBERS.format("Article ")),
     ["altChunk", "word/charts/chart1.xml: a chart", "SmartArt", "comments", "word/numbering.xml"]),
    ("docx", word(paragraph(text("One.")), numbering=NUMBERS.format("o \uf0b7")), []),
    ("po", f'{HEAD}msgid "a"\nmsgstr "b""c"\n', ["message 2"]),
    ("md", "One.\n\n+---+\n| A |\n+---+\n\n```{note}\nTwo.\n```\n", ["3", "7"]),
    ("md", '+++\ntitle = "Tea"\n+++\nOne.\n', ["front matter"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "source", "names"), LEFT, ids=range(len(LEFT)))
def test_text_that_stays_is_named(kind: str, source: str | bytes, names: list[str]) -> None:
    told = " ".join(map(str, document(kind, source).left))
    assert all(name in told for name in names)
    assert bool(told) == bool(names)


def test_numbers_below_zero_stay_and_times_below_zero_are_refused_with_their_line() -> None:
    source = "1\n00:00:01,000 --> 00:00:02,000\nOne.\n\n-2\n00:00:03,000 --> 00:00:04,000\nTwo.\n"
    assert translate(document("srt", source), Model()) == source.replace("One", "ONE").replace("Two", "TWO").encode()
    with pytest.raises(UserError, match=r"^x\.srt:6: "):
        document("srt", source.replace("00:00:03", "-00:00:03"))


def test_languages_and_directions_are_the_targets() -> None:
    look = '<w:rPr><w:lang w:val="en-GB"/></w:rPr>'
    styles = f'<w:styles xmlns:w="{WORD}"><w:lang w:val="en-US"/></w:styles>'
    content = word(paragraph(look + text("One.")), styles=styles)
    file = read(content, "docx", name="x.docx", source_lang="en", target_lang="ar")
    package = zipfile.ZipFile(io.BytesIO(translate(file, Model())))
    written = package.read("word/document.xml").decode()
    assert '<w:lang w:val="ar"/>' in written
    assert "<w:pPr><w:bidi/></w:pPr>" in written
    assert "<w:rtl/><w:lang" in written
    assert 'w:val="ar"' in package.read("word/styles.xml").decode()
    page = read(b"<html lang=en><p>One.", "html", name="x.html", source_lang="en", target_lang="ar")
    assert translate(page, Model()) == b'<html dir="rtl" lang=ar><p>ONE.'


#: English and its stand-in in Chinese, with a bold word, code and a placeholder.
_CHINESE = {
    "A dog sees.": "狗看到了。",
    "Use x here.": "使用 x 吧。",
    "A cat.": "一只猫。",
    "See {n} files.": "见 {n} 个。",
}


def chinese(sentence: str) -> str:
    """A translation without spaces."""
    return _CHINESE.get(sentence, "句子。")


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("txt", "A dog sees. A cat. Use x here.\nA cat.\n", "狗看到了。一只猫。使用 x 吧。\n一只猫。\n"),
        ("md", "A dog sees. Use `x` here. A cat.\n", "狗看到了。使用 `x` 吧。一只猫。\n"),
        ("html", "<p>A dog sees. A cat.<br>See {n} files. Go</p>", "<p>狗看到了。一只猫。<br>见 {n} 个。句子。</p>"),
        ("json", '{"a": "A dog sees. See {n} files."}', '{"a": "狗看到了。见 {n} 个。"}'),
        ("xlf", XLF.format(UNIT.format("A dog sees. A cat.")), "狗看到了。一只猫。</target>"),
        ("po", entry("A dog sees. A cat."), 'msgstr "狗看到了。一只猫。"'),
        ("docx", word(paragraph(text("A dog sees. A cat."))), "狗看到了。一只猫。"),
        ("md", "# A dog sees. {#a-dog}\n", "# 狗看到了。 {#a-dog}\n"),
        ("md", "A dog sees. {#a}\n===\n", "狗看到了。 {#a}\n===\n"),
    ],
)
def test_nothing_stands_between_sentences_of_a_script_without_spaces(
    kind: str, source: str | bytes, expected: str
) -> None:
    assert expected in written(kind, source, chinese)[1]


@pytest.mark.parametrize(
    ("source", "formats"), [("**A dog sees.** A cat.", ["strong"]), ("_A dog sees._ **A cat.** Go.", ["em", "strong"])]
)
def test_emphasis_of_a_sentence_is_read_again_without_the_space_behind_it(source: str, formats: list[str]) -> None:
    """CommonMark ends no emphasis at `。**` before a letter."""
    out = translate(document("md", source), Model(chinese)).decode()
    (inline,) = (token for token in MarkdownIt().parse(out) if token.type == "inline")
    opened = [token.type.removesuffix("_open") for token in inline.children or () if token.nesting > 0]
    assert opened == formats
    text_of = "".join(token.content for token in inline.children or ())
    assert text_of == translate(document("txt", re.sub("[*_]", "", source)), Model(chinese)).decode()


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("md", "你好今天\n天气很好。我们走\n吧。 hello\nworld\n"),
        ("html", "<p>你好今天\n  天气很好。<b>我们\n</b>走\n吧。 hello\nworld</p>"),
        ("xlf", XLF.format(UNIT.format("你好今天\n天气很好。我们走\n吧。 hello\nworld"))),
    ],
)
def test_a_line_break_of_a_script_without_spaces_is_no_space(kind: str, source: str) -> None:
    model = Model(lambda _: "Yes.")
    document_of = read(source.replace("en", "zh", 1).encode(), kind, name="x", source_lang="zh", target_lang="de")
    out = translate(document_of, model).decode()
    asked = [sentence.text for sentence in model.asked[0]]
    assert asked == ["你好今天天气很好。", "我们走吧。", "hello world"]
    assert "Yes. Yes. Yes." in re.sub("</?b>", "", out)  # the target has spaces


@pytest.mark.parametrize("kept", ["%1", "%s", "{n}", "$NAME$", "https://a.b/c", "www.a.bc", "a.b@c.org", "x_y"])
def test_what_is_kept_needs_no_space_in_a_script_without_spaces(kept: str) -> None:
    """A model that writes it so has kept it: the sentence is not translated in pieces."""
    code = kept == "x_y"
    model = Model(lambda sentence: f"见{kept}页")
    out = translate(document("md" if code else "txt", f"See a `{kept}` now." if code else f"See a {kept} now."), model)
    assert len(model.asked) == 1
    assert out.decode() == (f"见`{kept}`页" if code else f"见{kept}页")


@given(
    st.lists(st.text(alphabet="今天我们。，！「」“”（）AB12—…ーっ", min_size=1, max_size=12), max_size=8),
    st.integers(4, 40),
)
def test_lines_end_where_a_script_without_spaces_allows_it(words: list[str], width: int) -> None:
    whole = " ".join(words)
    places = tuple((n, n + 1) for n in range(len(whole)))
    translation = wrapped(Translated(whole, places), width)
    lines = translation.text.split("\n")
    assert "".join(translation.text.split()) == "".join(whole.split())
    for (begin, end), (at, _) in zip(translation.spans, places, strict=True):  # marks stay at their characters
        assert whole[at].isspace() or translation.text[begin:end] == whole[at]
    begins, ends = {word[0] for word in whole.split()}, {word[-1] for word in whole.split()}
    for before, after in pairwise(lines):
        assert after[:1] not in "。，！」”）ーっ" or after[0] in begins  # a space was there
        assert before[-1:] not in "「“（" or before[-1] in ends
    alone = "今天" * 30
    assert max(map(display_width, wrapped(Translated(alone), width).text.split("\n"))) in (width, width - 1)


def test_a_word_of_javascript_that_begins_a_paragraph_of_mdx_is_a_word() -> None:
    def backwards(text: str) -> str:
        return " ".join(reversed(text.split()))

    assert translate(document("mdx", "Then export\n"), Model(backwards)) == b"&#101;xport Then\n"
    assert translate(document("mdx", "- then import\n"), Model(backwards)) == b"- import then\n"


def test_names_with_backslashes_and_large_files_in_files_are_read() -> None:
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as copy:
        info = zipfile.ZipInfo("word/document.xml")
        info.filename = "word\\document.xml"
        copy.writestr(info, f'<w:document xmlns:w="{WORD}"><w:body>{paragraph(text("One."))}</w:body></w:document>')
    file = document("docx", package.getvalue())
    assert [segment.text for segment in file.segments] == ["One."]
    written = zipfile.ZipFile(io.BytesIO(translate(file, Model())))
    assert [info.orig_filename for info in written.infolist()] == ["word\\document.xml"]
    assert b"ONE." in written.read(written.infolist()[0])
    large = f"<header><reference><internal-file>{'QUJD' * 2_600_000}</internal-file></reference></header><body>"
    file = document("xlf", XLF.replace("<body>", large).replace("{}", UNIT.format("One.")))
    assert [segment.text for segment in file.segments] == ["One."]
