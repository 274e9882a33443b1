"""The sentence splitters: docnmt's rules, and sentencex mended by them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import langcodes
import pytest
import small_system
from hypothesis import given
from hypothesis import strategies as st
from translate.lang import data

from docnmt.apps.commands.output import sentences_of_lines
from docnmt.apps.documents.kinds import read
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.data_options import parse_columns
from docnmt.core.read_corpus import TextLines
from docnmt.core.split_sentences import (
    RunningText,
    cut_long,
    of_documents,
    of_sentences,
    of_table,
    split_sentences,
    splitter,
    whole_lines,
)
from docnmt.runtime import languages
from docnmt.runtime.languages import (
    base,
    joined,
    one_line,
    script,
    seam,
)
from docnmt.runtime.system import UserError

#: Each case: language and its sentences, divided by `|`, which must come back from either splitter.
SCRIPTS = [
    ("en", "It rained.|We stayed in."),
    ("en", "1. Create a folder.|It is empty."),
    ("en", "Mr. Smith met Dr. Jones on Jan. 3 in St. Ives.|They talked."),
    ("en", "See Fig. 3 and No. 7 on pp. 12 ff. of the book.|Then go on."),
    ("en", "J. R. R. Tolkien wrote it."),
    ("en", "He lives in the U.S. now.|Really?|Yes!"),
    ("en", "Bring pens, e.g. Two blue ones."),
    ("en", '"Is it?" she asked.|"It is."|He left.'),
    ("en", "Wait… what?|(No.)|Version 2.5 costs 3.50 dollars."),
    ("en", "It was 1984.|Nobody knew."),
    ("en", "Pears, plums, etc.|He ate them all."),
    ("en", "The value is 0.5.|See section 3.2.|It fell in the sun.|On Sat. 3 it rose."),
    ("en", "1.1. Introduction"),
    ("de", "Am 3.5. Montag war es.|Ich bin Max.|Ich nehme max. 5 davon."),
    ("de", "Am 3. Mai kam Prof. Müller.|Er blieb bis zum 12. Juni."),
    ("de", "Das gilt z.B. für Äpfel bzw. Birnen.|Vgl. Abb. 3 auf S. 5.|Gut."),
    ("de", "Das gilt z. B. für Äpfel."),
    ("de", "„Kommst du?“|„Ja.“|Sie ging."),
    ("de", "Es war 1984.|Niemand wusste es."),
    ("de", "»Ja.«|Er ging.|»Wohin?«|Fort."),
    ("", "Ἐν ἀρχῇ ἦν ὁ λόγος.|Καὶ ὁ λόγος ἦν πρὸς τὸν θεόν."),
    ("zh", "你好。|“真的吗？”|他说。"),
    ("zh", "《红楼梦。》|他读了。"),
    ("zh", '你好。|"真的吗？"|他说。'),
    ("zh", "“真的吗？”，他问。|“好！”——他说。"),
    ("zh", "真的？……|是的。"),
    ("zh", "（对。）|好"),
    ("zh", "真的吗?|我不信!|好"),
    ("zh", "他说：“你好。”|他走了。"),
    ("zh", "他用了A.B公司的3.5版。|好。"),
    ("zh", "他读了D.C. Goldrei的书，问J. Smith。|好"),
    ("zh", "他来了。[1]|他走了。²|好"),
    ("ja", "「こんにちは。」と言った。|『本。』|次。"),
    ("ja", "彼は「行く。」と言った。|そして去った。"),
    ("ja", "これは「テスト。」です。|次。"),
    ("ja", "本当！？|はい！|『あ。』を読む。"),
    ("ja", "「行く！」。|次"),
    ("ja", "終わり。[1]|次。"),
    ("hi", "यह एक वाक्य है।|यह दूसरा है।|क्या?|हाँ।"),
    ("ar", "كيف حالك؟|أنا بخير.|شكرا!"),
    ("fa", "حالت چطوره؟|خوبم."),
    ("ur", "یہ ایک جملہ ہے۔|یہ دوسرا ہے۔|کیا؟|ہاں۔"),
    ("am", "ሰላም ነው።|እንዴት ነህ።"),
    ("hy", "Բարև։|Ինչպես ես։"),
    ("hy", "Բարև:|Ինչպես ես:"),
    ("my", "မင်္ဂလာပါ။|နေကောင်းလား။"),
    ("km", "សួស្តី។|សុខសប្បាយទេ?"),
    ("el", "Τι κάνεις;|Καλά.|Εσύ;"),
    ("el", "Τι κάνεις; είπε.|Καλά."),
    ("el", "«Τι κάνεις;»|Ρώτησε.|Τέλος.1|Μετά."),
    ("es", "El Sr. García llegó.|La Sra. López también.|D. Juan y Dña. Ana.|¿Qué tal?|¡Bien!|EE. UU. ganó."),
    ("it", "Il Sig. Rossi è qui.|Il dott. Verdi e il Prof. Neri.|L'Ing. Bianchi e l'Avv. Blu."),
    ("nl", "Dhr. Jansen is hier.|Mevr. De Vries ook.|Drs. Smit en ir. Bos.|'s Avonds kwam hij."),
    ("pt", "O Sr. Silva chegou.|A Sra. Souza e a Dra. Lima.|O Eng. Reis.|V. Exa. O sabe."),
    ("cs", "Pan Ing. Novák přišel.|MUDr. Dvořák a Mgr. Svoboda.|RNDr. Černý."),
    ("pl", "Pan mgr. Kowalski i ks. Nowak.|Inż. Zych, dr hab. Wilk.|Św. Jan i ul. Długa.|To koniec.1|On poszedł."),
    ("fr", "M. Dupont est là.|Mme. Durand et MM. Paul et Jean.|Mgr. Dupanloup et Me. Leroy.|Le Dr. Roux."),
    ("fr", "« Oui. »|Il partit.|« Non ! »|Elle rit."),
    ("fr", "Vraiment ?|Oui !|Bien.1|Il part.²|Elle reste.[4]|Fin."),
    ("fr", "Attends . . .|Quoi ?"),
    ("ru", "«Да.»|Он ушёл.|«Нет!» — сказал он.|Это я.|Он ушёл.1|Всё."),
    ("ru", "Проф. Петров пришёл.|Акад. Сахаров и г. Иванов.|А. С. Пушкин на ул. Ленина в г. Москва.|Им. Ленина."),
    ("uk", "Проф. Петренко на вул. Шевченка.|Він ім. Франка."),
    ("ko", "안녕하세요.|반갑습니다."),
    ("sv", "Hej.|Jag."),
    ("en", "Wait . . . he said.|Why . . .|What?"),
    ("en", "It was.2|Then he left.[3]|Next.¹|See.[4][5]|End"),
    ("en", "Use version 3.2 Now and No.2 Here.|Yes."),
]


@pytest.mark.parametrize(
    ("name", "language", "text"),
    [*((name, *case) for name in ("rules", "sentencex", "auto") for case in SCRIPTS),
     *((name, "en", "So do I.|- No.|- Why not?!|Oh.") for name in ("rules", "auto"))],
)  # fmt: skip
def test_sentences_of_all_scripts_are_found_by_either_splitter(name: str, language: str, text: str) -> None:
    pytest.importorskip("sentencex", reason="needs docnmt[documents]")
    assert splitter(name, language)(joined(text.split("|"))) == text.split("|")


ALL = sorted({mark for _, text in SCRIPTS for mark in text if not mark.isalnum()} | set("aB3と\u00a0 \t"))


@given(
    st.text(alphabet=st.sampled_from(ALL), max_size=60),
    st.sampled_from(["rules", "sentencex"]),
    st.sampled_from(["", "en", "de", "zh", "ja", "fr", "my", "nl", "el"]),
)
def test_nothing_is_lost(line: str, name: str, language: str) -> None:
    pytest.importorskip("sentencex", reason="needs docnmt[documents]")
    assert "".join("".join(splitter(name, language)(line)).split()) == "".join(line.split())


# Text that has to be divided into sentences, and its translation put together as it was.


def lines(text: str) -> TextLines:
    return TextLines(io.BytesIO(text.encode()), name="stdin")


def table(text: str, kind: str, *columns: str) -> RunningText:
    return RunningText.together(of_table(lines(text), kind, parse_columns(columns)[0], "en", split_sentences))


def sentences(text: RunningText) -> list[list[str]]:
    return [list(document.sentences) for document in text.documents]


def echoed(text: RunningText) -> list[str]:
    """The output of a translation into capitals."""
    return list(text.joined(sentence.upper() for document in sentences(text) for sentence in document))


def closed(form: Callable[[TextLines], Iterator[RunningText]], blocks: Sequence[str]) -> list[tuple[int, list[str]]]:
    """What is written for each part, and how many blocks of the input had been read when it was closed."""
    read = 0

    def arriving() -> Generator[bytes, None, None]:
        nonlocal read
        for block in blocks:
            read += 1
            yield block.encode()

    return [(read, echoed(part)) for part in form(TextLines(arriving(), name="stdin"))]


def jsonl(rows: Sequence[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_whole_documents_a_line() -> None:
    documents = of_documents(lines("A title\\n\\nIt rained. We left.\n\nBye.\n"), split_sentences)
    text = RunningText.together(documents)
    assert sentences(text) == [["A title", "It rained.", "We left."], [], ["Bye."]]
    assert echoed(text) == ["A TITLE\\n\\nIT RAINED. WE LEFT.", "", "BYE."]


def test_tsv_with_and_without_a_header() -> None:
    bare = table("d1\tOne. Two.\tx\nd2\tThree.\ty\n", "tsv")
    assert sentences(bare) == [["One.", "Two."], ["Three."]]
    assert echoed(bare) == ["d1\tOne. Two.\tx\tONE. TWO.", "d2\tThree.\ty\tTHREE."]
    headed = table("text\tid\nOne.\t1\n\nTwo.\t1\n", "tsv", "source=text", "document=id")
    assert sentences(headed)[0] == ["One."]
    assert echoed(headed) == ["text\tid\thypothesis", "One.\t1\tONE.", "", "Two.\t1\tTWO."]


def test_a_document_is_there_as_soon_as_its_end_has_come() -> None:
    corpus = ["a.\nb", ".\n\n", "\nc.\n", "<p>\nd.\n", "\n", "e.\n"]
    assert closed(of_sentences, corpus) == [(2, ["A.", "B.", ""]), (3, [""]), (5, ["C.", "D.", ""]), (6, ["E."])]
    marked = ["<d>\na.\n", "<d>\n<d>\n", "b.\n", "<d>\n"]
    assert closed(of_sentences, marked) == [(2, ["A.", ""]), (4, ["B.", ""])]
    whole = partial(of_documents, split=split_sentences)
    assert closed(whole, ["a.\\nb.\n", "\n", "c"]) == [(1, ["A.\\nB."]), (2, [""]), (3, ["C"])]
    of_tsv = partial(of_table, kind="tsv", given=parse_columns([])[0], language="en", split=split_sentences)
    rows = ["doc\tsrc\n", "1\ta\n", "1\tb\n2\tc\n", "\n", "2\td\n"]
    assert closed(of_tsv, rows) == [
        (1, ["doc\tsrc\thypothesis"]), (3, ["1\ta\tA", "1\tb\tB"]), (4, ["2\tc\tC"]), (5, [""]), (5, ["2\td\tD"])
    ]  # fmt: skip
    of_jsonl = partial(of_table, kind="jsonl", given=parse_columns([])[0], language="en", split=split_sentences)
    answered = closed(of_jsonl, [jsonl([{"src": [text]}]) for text in "ab"])
    assert [(read, json.loads(out[0])["hypothesis"]) for read, out in answered] == [(1, ["A"]), (2, ["B"])]


@given(st.lists(st.sampled_from(["a.", "b c.", "", " ", "<p>"]), max_size=12), st.booleans(), st.integers(1, 5))
def test_the_plain_form_is_that_of_a_corpus(rows: list[str], marks: bool, size: int) -> None:
    """By the reader of data folders, which sees all at once; and in whatever blocks it comes."""
    text = "".join(f"{row}\n" for row in (["<p>", *rows] if "<p>" in rows else rows))
    text = text.replace("\n\n", "\n<d>\n").replace(" \n", "<d>\n") if marks else text
    try:
        corpus = small_system.corpus_of_text(lines(text))
    except UserError:
        return  # two ways of marking documents
    running = RunningText.together(of_sentences(lines(text)))
    documents = [list(corpus.source_text[a:b]) for a, b in pairwise(corpus.document_offsets.tolist())]
    assert sentences(running) == documents
    assert [counts[0] for counts in running.rows] == sentences_of_lines(corpus)
    own = ParallelCorpus.from_documents(running.documents, small_system.tokenizer())
    assert own.levels.tolist() == corpus.levels.tolist()
    blocks = [text[n : n + size] for n in range(0, len(text), size)]
    assert [line for _, part in closed(of_sentences, blocks) for line in part] == echoed(running)


def test_faults_name_the_line() -> None:
    with pytest.raises(UserError, match=":2:"):
        table('{"src": "a"}\n{"src": 5}\n', "jsonl")
    with pytest.raises(UserError, match=r":2:.*'hypothesis'"):
        table('{"source": "A."}\n{"source": "B.", "hypothesis": ""}\n', "jsonl")
    with pytest.raises(UserError, match=r":1:.*'hypothesis'"):
        table("source\thypothesis\nA.\tB.\n", "tsv")
    with pytest.raises(UserError, match="stdin:"):
        table('{"a": "b"}\n', "jsonl")


@given(st.lists(st.lists(st.text(alphabet="ab. \n", max_size=12), max_size=3), min_size=1, max_size=5), st.booleans())
def test_nothing_is_lost_of_running(documents: list[list[str]], whole: bool) -> None:
    """A row is a text, or a list whose translation is a list."""
    rows: list[dict[str, Any]] = [{"doc": n, "src": text} for n, document in enumerate(documents) for text in document]
    if whole:
        rows = [{"src": document} for document in documents if document]
    if not rows:
        return
    out = [json.loads(line)["hypothesis"] for line in echoed(table(jsonl(rows), "jsonl"))]
    for row, translation in zip(rows, out, strict=True):
        assert type(translation) is type(row["src"])
        pairs = zip(row["src"], translation, strict=True) if whole else [(row["src"], translation)]
        for text, hypothesis in pairs:
            assert [part.split() for part in hypothesis.split("\n")] == [
                part.upper().split() for part in text.split("\n")
            ]


def test_a_json_row_stays_as_it_was_written() -> None:
    row = r'{"src": "a\u00e9", "weight": 1.10, "n": 1e400, "n": 12345678901234567890.5 }'
    (line,) = echoed(table(f"  {row}  \n", "jsonl"))
    assert line == f"  {row[:-2]}, " + '"hypothesis": "AÉ"}'


# Languages: codes that mean the same, and what follows from them.


#: Where langcodes keeps a member of a group apart, or takes another member for the group.
_APART = {"bih": "bho", "fuv": "fuv", "hbs": "sr", "nb": "nb", "nob": "nb", "pbt": "pbt", "prs": "fa", "quy": "quy",
          "tgl": "fil", "twi": "ak"}  # fmt: skip


def test_codes_are_those_of_langcodes() -> None:
    """Every language of two letters that translate-toolkit knows, by its codes of three letters."""
    checked = 0
    for code in {name.partition("_")[0] for name in data.languages if "@" not in name}:
        try:
            language = langcodes.get(code)
            variants = {language.to_alpha3("T"), language.to_alpha3("B")}
        except LookupError:  # it has none
            continue
        if len(code) == 2:
            checked += 1
            assert {base(variant) for variant in variants} == {base(code)}
            assert all(_APART.get(v, langcodes.standardize_tag(v, macro=True)[:2]) in (code, v) for v in variants)
    assert checked > 100


@pytest.mark.parametrize("code", sorted({*languages._SHORT.values(), *languages._SCRIPTS}))
def test_scripts_are_those_of_cldr(code: str) -> None:
    """By langcodes, which has CLDR's likely subtags; Korean's script has a code for Hangul with Hanja, too."""
    expected = langcodes.get(code).maximize().script
    if expected is None or code in ("ae", "ie", "io", "sh", "vo"):
        pytest.skip("langcodes does not know it")
    assert script(code) == {"Kore": "Hang"}.get(expected, expected)


#: Files that a model must not fill, and the model's target.
OTHER_SCRIPTS = [
    ("zh_TW", "zh-Hans"), ("zh-HK", "zho_Hans"), ("zh_CN", "zh-Hant"), ("sr@latin", "sr"), ("sr", "sr-Latn"),
    ("sr_ME", "srp_Cyrl"), ("uz@cyrillic", "uz"), ("az-IR", "az"), ("pa-PK", "pa"), ("zh_TW", "zh"), ("kk-Latn", "kk"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "model"), OTHER_SCRIPTS)
def test_a_catalogue_of_another_script_is_refused(file: str, model: str) -> None:
    po = f'msgid ""\nmsgstr ""\n"Language: {file}\\n"\n\nmsgid "A dog"\nmsgstr ""\n'.encode()
    languages = f'source-language="en" target-language="{file.replace("_", "-")}"'
    unit = '<trans-unit id="1"><source>A dog</source></trans-unit>'
    xlf = f'<xliff version="1.2"><file {languages} original="x"><body>{unit}</body></file></xliff>'.encode()
    for kind, content in (("po", po), ("xlf", xlf)):
        with pytest.raises(UserError, match=rf"^x: .*anguage is '{file[:2]}.*'{model}'.*"):
            read(content, kind, name="x", source_lang="en", target_lang=model)


#: What stands between two texts: a space or nothing.
SEAMS = [
    ("你好。", "再见。", ""),
    ("Hello.", "你好。", " "),
    ("我们", "Python", " "),
    ("今天 2024", "年", ""),
    ("“真的吗？”", "他说。", ""),
    ("你好!", "今天", ""),
    ("……", "——", " "),
    ("好……", "——他", ""),
    ("ราคา", "ดี", ""),
    ("ราคา", "5", " "),
    ("ខ្មែរ។", "ខ្មែរ", ""),
    ("မြန်မာ။", "မြန်မာ", ""),
    ("한국어.", "한국어", " "),
    ("책」", "그는", " "),
    ("བོད།", "བོད།", " "),
    ("A dog.", "A cat.", " "),
    ("Ａ１", "你", ""),
    ("𠮷", "野", ""),
    ("", "你", ""),
    ("👍", "你好", ""),
    ("1.", "你好", " "),
    ("好.", "你", " "),
    ("1.", "「你好」", " "),
]


@pytest.mark.parametrize(("before", "after", "between"), SEAMS)
def test_what_stands_between_two_texts(before: str, after: str, between: str) -> None:
    assert seam(before, after) == between
    if before:
        assert joined([before, "", after]) == f"{before}{between}{after}"
        assert one_line(f" {before} \n {after}\r\n") == f"{before}{between}{after}"


@pytest.mark.parametrize("language", sorted(languages._PLURALS))
def test_plural_categories_are_those_of_cldr(language: str) -> None:
    """By Babel, which has CLDR's data; of Romance languages without `many`, which is for millions."""
    babel = pytest.importorskip("babel")
    try:
        expected = set(babel.Locale(language).plural_form.tags)
    except babel.UnknownLocaleError:
        pytest.skip("Babel does not know it")
    categories = set(languages._PLURALS[language])
    assert categories in (expected, expected - {"many"} if "few" not in expected else expected)


def test_long_sentences_are_cut_and_nothing_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    words = " ".join(f"word{n}{',' * (n % 7 == 0)}" for n in range(1000))
    pieces = cut_long(words, 200)
    assert " ".join(pieces) == words
    assert max(map(len, pieces)) <= 200
    assert all(piece.endswith(",") for piece in pieces[:-1])
    assert "".join(cut_long("x" * 1000, 300)) == "x" * 1000
    assert cut_long("short", 300) == ["short"]
    split = splitter("rules", "en")
    assert " ".join(split(words)) == words
    split(words)
    said = capsys.readouterr().err
    assert said.count("pieces") == 1
    assert "word" not in said  # services do not log texts
    assert split("A dog. A cat.") == ["A dog.", "A cat."]
    whole = whole_lines()
    assert whole("A dog. A cat.") == ["A dog. A cat."]
    assert " ".join(whole(words)) == words
    assert len(whole(words)) > 1


def test_a_long_line_of_a_corpus_is_cut_and_written_as_one() -> None:
    text = f"a.\n{'b ' * 999}b\n\nc.\n"
    (first, second) = of_sentences(lines(text), whole_lines())
    assert [len(sentence) for sentence in first.documents[0].sentences] == [2, 1499, 499]
    assert second.documents[0].sentences == ("c.",)
    assert list(first.joined(iter(["A", "B", "B2", "C"]))) == ["A", "B B2", ""]
