"""Small files that once came back wrong, from the folder that $DOCNMT_CASES names: the sentences that a model reads of
each, what is written when it swaps the case of letters, and what is named. Run it with `-v` for a line a file.
"""

from __future__ import annotations

import os
import runpy
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import small_system

from docnmt.apps.documents.kinds import ENDINGS, read
from docnmt.apps.documents.sentences import SegmentSentence, translated
from docnmt.cli.preprocess import main as preprocess
from docnmt.cli.score import main as score
from docnmt.cli.translate import main as translate
from docnmt.core.split_sentences import split_sentences
from docnmt.runtime.system import UserError

ROOT = Path(os.environ.get("DOCNMT_CASES", Path(__file__).parents[3] / "shared/cases"))
pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason="no folder of cases: set DOCNMT_CASES to one")

#: File, how many sentences the model reads, and what stands in the output (`⏎` is a line break) or is named (`note:`).
CASES = r"""angular-json/a.po  1  {$name}, ON $1 GO
angular-json/angular.json  3  "locale": "de" ¶ {$INTERPOLATION}, GO ¶ {$START_BOLD_TEXT}sAVE{$CLOSE_BOLD_TEXT} ¶ {$count} D
angular-json/mf2.json  3  {$name}, GO ¶ .input {$count :number}\n.match $count\none {{oNE ¶ * {{{$count} DOGS
captions/amp.srt  1  tOM &amp; aNNA
captions/ass.srt  2  LINE ON. sECOND LINE ON.
captions/b.ass  2  {\pos(10,10)\p1}m 0 0 l 10 10{\p0}lABEL ¶ tEN\hKM
captions/b.vtt  1  tOM &amp; aNNA
captions/cc.srt  5  ⏎>> gOOD ¶ ⏎>> mary: hELLO ¶ ⏎>>> nOW ¶ ⏎&gt;&gt; fINE
cjk-spaces/a.html  1
cjk-spaces/a.md  2
cjk-spaces/a.srt  1
docx-altchunk/72-altchunk.docx  1  a PARAGRAPH. ¶ note:altChunk
docx-backslash/73-backslash.docx  1  hELLO
hidden-text/a.docx  16  vISIBLE ¶ foo@bar.org OR www.foo.org/on. dONE. ¶ note:hidden text
html-forms/form.html  4  <button>sAVE CHANGES</button> TO ¶ <label>cOUNTRY< ¶ <option>fRANCE< ¶ <option>gERMANY<
markdown-blocks/alert.md  4  > [!NOTE]⏎> rEAD ¶ :::warning⏎dO ¶ ⏎:::⏎ ¶ aPPLE⏎: a FRUIT ¶ $$⏎a\,b⏎$$ ¶ ⏎| A | B |⏎+---+ ¶ note:15
markdown-blocks/toml.md  2  +++⏎title = "Page"⏎draft = false⏎+++⏎⏎# hEADING ¶ note:front matter
markdown-indented/indented.md  7  !!! note "a TITLE"⏎⏎    tHIS ¶ === "tAB"⏎⏎    tHIS ¶ tEXT[^1].⏎⏎[^1]: fIRST ¶ ⏎    sECOND
markdown-math/math.md  2  $\alpha_1 + \beta\,x$ IS ¶ \(a\_b < c\) IS
marks-without-text/npm.docx  14  IS ON PAGE {0}. ¶ SYMBOL, {0} IS ¶ pAGE {0} OF {1}
marks-without-text/pagenum.docx  2  pAGE {0} OF {1} PAGES
marks-without-text/x.xlf  2  <x id="INTERPOLATION"/>, W ¶ <x id="INTERPOLATION_1"/>. ¶ "x-b"/>sAVE<x id="E" ctype="x-b"/> N
marks-without-text-2/badge.md  1  sEE [![Build](https://x.org/b.svg)](https://x.org) NOW.
marks-without-text-2/icon.html  1  <i class="icon-save"></i> sAVE, OR ¶ <a href="x"><img src="y" alt=""></a> NOW
mediawiki-json/banana.json  6  $1 SENT {{PLURAL:$1|ONE DOG|$1 DOGS}} TO {{GENDER:$2|HIM|HER}} ON ¶ [[Page on| ¶ [$1 LINK ON]
note-references/note.html  9  .<a href="notes.xhtml#n55"><sup>55</sup></a> tHE ¶ <sup><a href="#fn3" id="r3">3</a></sup> AND
note-references/note.html  9  <a href="#cite_note-1">[1]</a></sup> iT ¶ <a epub:type="noteref" href="#n1">*</a> aN
note-references/note.html  9  5 M<sup>2</sup>. w ¶ h<sub>2</sub>o.
note-references/sup-and-hidden.docx  16  WERE SMALL AND WEAK ¶ note:hidden text
note-references/sup-and-hidden.odt  13  vISIBLE ¶ WERE SMALL AND WEAK ¶ bOOKMARK ON. 3 PAGES ON. ¶ note:hidden text
other-placeholders/c.json  1  // comment on⏎ "a": "a DOG ON",⏎}
other-placeholders/ph.json  58  {{ $count }} ON ¶ %{n} ON {{- html }} ¶ #{name} ON ¶ ${name} ON ¶ <%= x %> ON ¶ __name__ ON ¶ $1 ON
other-placeholders/ph.json  58  @:link ON ¶ %1$@ ON ¶ {n, number} ON ¶ [[name]] ON ¶ ~name~ ON ¶ :count DOGS ¶ %%VAR%% ON
other-placeholders/ph.json  58  {{#if x}}ON{{/if}} DOG ¶ one{# DOG ON} other{# D ¶ male{ON}other{OFF} ¶ {{name | uppercase}} ON
other-placeholders/ph.json  58  $(name) ON ¶ $t{name} ON ¶ {$name} ON ¶ {name:upper} ON ¶ #name# ON ¶ [name] ON ¶ %(n)d ON ¶ %1 ON
other-placeholders/ph.json  58  %n FILE(S) ¶ %L1 ON ¶ &#39;ON&#39; ¶ https://x.org/?a=1&b=2 ON ¶ #123 ON ¶ @user ON ¶ ^1 ON ¶ `code` ON
pipe-plurals/a.json  8  "NO APPLES | ONE APPLE | {count} APPLES" ¶ {0} tHERE ¶ |[1,19] tHERE ¶ |[20,*] tHERE ¶ "CAR | CARS"
placeholders/placeholders.po  9  %r IS ¶ %dX%d, %.3fS, %d ¶ 5%% OFF ¶ %minutes% M ¶ %{count} L ¶ @count N ¶ :attribute I
placeholders/placeholders.po  9  one {# FILE} other {# FILES}} SINCE {0,date,short} ¶ {name:>10} HAS {count:,} I
placeholders/placeholders.po  9  :ref:`the guide <guide>` AND ``code_here`` FOR |version|. ¶ B<--help> S ¶ I<this> T ¶ \\fBBOLD\\fR
placeholders/u.txt  1    wRITE TO a@b.org OR SEE http://x.y/z NOW.
po-encodings/latin1.po  1  charset=ISO-8859-1 ¶ wORLD
po-magic/a.po  15  aBOUT\n ¶ %d DOG" ¶ _oPEN ¶ "Alt" ¶ {name!r:>10}, {} A ¶ <p>a ¶ "  INDENTED ¶ <filename>%1<
po-magic/a.po  15  B<foo>(1) AND I<bar> OR C<< a->b >> ¶ %zu BYTES (%3$s), %'d, %-10.3s, %5.1f%%, %n ON ¶ $FILE OR ${DIR} N
po-magic/a.po  15  %0:s TO %1:d N ¶ %1% OF %2% ON ¶ msgid "translator-credits"⏎msgstr "" ¶ note:translators
po-target-charset/latin1.po  1  (HELLO)
pot-header/23.pot  2  Language: de\n ¶ charset=UTF-8\n ¶ nplurals=2; plural=(n != 1); ¶ [0] "ONE FILE" ¶ [1] "%d FILES"
ruby/71-ruby.docx  24  h2o IS ¶ eQUATION {0} IS ¶ note:chart
ruby/ruby.html  1  <ruby>APPLE<rp>(</rp><rt>reading</rt><rp>)</rp></ruby> IS ¶ <st1:place>lONDON</st1:place> T
xliff-protected/protected.xlf  1  <target>pRESS THE <mrk id="m" translate="no">Foo Bar</mrk> KEY.</target>
xliff-protected/protected12.xlf  1  pRESS THE <mrk mtype="protected">Foo Bar</mrk> KEY.</target>
xliff-segments/seg.xlf  3  mid="1">oNE.</mrk> <mrk mtype="seg" mid="2">tWO.< ¶ mid="3">Drei.</mrk> <mrk mtype="seg" mid="4">fOUR.<
"""  # noqa: E501


@pytest.mark.parametrize("case", CASES.splitlines(), ids=lambda case: case.split("  ")[0])
def test_documents(case: str) -> None:
    name, sentences, *parts = case.split("  ", 2)
    path, language = ROOT / name, "zh" if name.startswith("cjk-spaces/a.") else "en"
    document = read(path.read_bytes(), ENDINGS[path.suffix], name=path.name, source_lang=language, target_lang="de")
    seen: list[str] = []

    def model(batch: Sequence[SegmentSentence]) -> Iterator[str]:
        texts = [sentence.text for sentence in batch if sentence.given is None]
        seen.extend(texts)
        return (text.swapcase() for text in texts)

    split = partial(split_sentences, language=language)
    output = document.write(translated(document, model, split=split, split_target=split))
    text = output.decode(errors="replace")
    if path.suffix in (".docx", ".odt"):
        text = "\n".join(
            segment.text
            for segment in read(
                output, ENDINGS[path.suffix], name=path.name, source_lang="en", target_lang="de"
            ).segments
        )
    assert len(seen) >= int(sentences)
    for part in parts[0].split(" ¶ ") if parts else ():
        wanted = part.removeprefix("note:").replace("⏎", "\n")
        assert wanted in (str((document.notes, document.left)) if part.startswith("note:") else text)
    assert language == "en" or not any(character.isspace() for line in seen for character in line)
    read_by_model = " ".join(seen[: int(sentences)])
    assert not any(sign in read_by_model for sign in ("55", "[1]", "reading", "&amp;", ">>> ", " , ", " ."))


def test_chinese_is_joined_without_spaces() -> None:
    for name in ("b.md", "b.srt", "b.txt"):
        path = ROOT / "cjk-spaces" / name
        document = read(path.read_bytes(), ENDINGS[path.suffix], name=name, source_lang="en", target_lang="ja")

        def model(batch: Sequence[SegmentSentence]) -> Iterator[str]:
            return ("これは長い文です。" * 2 for sentence in batch if sentence.given is None)

        splits = [partial(split_sentences, language=language) for language in ("en", "ja")]
        text = document.write(translated(document, model, split=splits[0], split_target=splits[1])).decode()
        assert "。 こ" not in text
        assert all(len(line) <= 21 for line in text.splitlines() if "-->" not in line) or not name.endswith("srt")
        assert not any(line.startswith("。") for line in text.splitlines())


@pytest.mark.parametrize(("name", "line"), [("srt-index/52-idx.srt", ":6:"), ("po-encodings/koi8.po", "'ru'")])
def test_refused(name: str, line: str) -> None:
    path = ROOT / name
    with pytest.raises(UserError, match=line):
        read(path.read_bytes(), ENDINGS[path.suffix], name=path.name, source_lang="en", target_lang="de")


def test_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "xliff-large/make.py"))
    content = (tmp_path / "big.xlf").read_bytes()
    assert len(read(content, "xlf", name="big.xlf", source_lang="en", target_lang="de").segments) == 1


def test_scored(capsys: pytest.CaptureFixture[str]) -> None:
    for name, said in (("sgml-scored/{}.sgm", "SGML"), ("chinese-13a/{}.zh", "13a")):
        system, reference = ("b", "a") if "sgm" in name else ("hyp", "ref")
        score(["--sys", str(ROOT / name.format(system)), "--ref", str(ROOT / name.format(reference))])
        notes = [line for line in capsys.readouterr().err.splitlines() if said in line]
        assert len(notes) == 1 or "sgm" in name


def test_separators_in_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = str(ROOT / "eos-lines/v")
    preprocess(["--destdir", str(tmp_path), "-s", "en", "-t", "de", "--vocab-size", "24", "--trainpref", prefix])
    assert "_eos" in capsys.readouterr().err


def test_with_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = small_system.save(tmp_path / "model.safetensors")
    folder = ROOT / "glossary-in-code"
    for name in ("g.json", "g.md"):  # a term inside of code or a placeholder asks for nothing
        words = [str(folder / name), "--path", str(model), "--max-len-b", "9", "-o"]
        assert not translate([*words, str(tmp_path / name)])
        assert not translate([*words, str(tmp_path / f"with-{name}"), "--glossary", str(folder / "g1.tsv")])
        assert (tmp_path / name).read_bytes() == (tmp_path / f"with-{name}").read_bytes()
    assert not translate([str(ROOT / "unknown-text/u.txt"), "-o", str(tmp_path / "u.txt"), "--path", str(model)])
    assert "unknown" in capsys.readouterr().err
