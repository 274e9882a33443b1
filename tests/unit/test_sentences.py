"""The sentence splitters: docnmt's rules, and sentencex mended by them."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docnmt.core import split_sentences as split_sentences_module
from docnmt.core.split_sentences import cut_long, split_sentences, splitter, whole_lines
from docnmt.runtime.languages import joined
from docnmt.runtime.system import UserError

#: Each case: language and the sentences that must come back from them joined by a space.
CASES = [
    ("en", ["It rained.", "We stayed in."]),
    ("en", ["1. Create a folder.", "It is empty."]),
    ("en", ["Mr. Smith met Dr. Jones on Jan. 3 in St. Ives.", "They talked."]),
    ("en", ["See Fig. 3 and No. 7 on pp. 12 ff. of the book.", "Then go on."]),
    ("en", ["J. R. R. Tolkien wrote it."]),
    ("en", ["He lives in the U.S. now.", "Really?", "Yes!"]),
    ("en", ["Bring pens, e.g. Two blue ones."]),
    ("en", ['"Is it?" she asked.', '"It is."', "He left."]),
    ("en", ["Wait… what?", "(No.)", "Version 2.5 costs 3.50 dollars."]),
    ("en", ["So do I.", "- No.", "- Why not?!", "Oh."]),
    ("en", ["It was 1984.", "Nobody knew."]),
    ("en", ["Pears, plums, etc.", "He ate them all."]),
    ("de", ["Am 3. Mai kam Prof. Müller.", "Er blieb bis zum 12. Juni."]),
    ("de", ["Das gilt z.B. für Äpfel bzw. Birnen.", "Vgl. Abb. 3 auf S. 5.", "Gut."]),
    ("de", ["Das gilt z. B. für Äpfel."]),
    ("de", ["„Kommst du?“", "„Ja.“", "Sie ging."]),
    ("de", ["Es war 1984.", "Niemand wusste es."]),
    ("de", ["»Ja.«", "Er ging.", "»Wohin?«", "Fort."]),
    ("fr", ["«\u00a0Oui.\u00a0»", "Il partit.", "«\u202fNon\u202f!\u202f»", "Elle rit."]),
    ("zh", ["你好。", "再见！"]),
    ("", ["Ἐν ἀρχῇ ἦν ὁ λόγος.", "Καὶ ὁ λόγος ἦν πρὸς τὸν θεόν."]),
]


#: Each case: language and its sentences, divided by `|`, which must come back from either splitter.
SCRIPTS = [
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
    ("ja", "「はい。」|「いいえ。」"),
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
    ("en", "“It was.”4|Then."),
    ("en", "Use version 3.2 Now and No.2 Here.|Yes."),
    ("de", "Es endet.3|Dann kam Abb. 2.|Ende."),
]


@pytest.mark.parametrize("name", ["rules", "sentencex", "auto"])
@pytest.mark.parametrize(("language", "text"), SCRIPTS)
def test_sentences_of_all_scripts_are_found_by_either_splitter(language: str, text: str, name: str) -> None:
    pytest.importorskip("sentencex", reason="needs docnmt[documents]")
    assert splitter(name, language)(joined(text.split("|"))) == text.split("|")


ALL = sorted({mark for _, text in SCRIPTS for mark in text if not mark.isalnum()} | set("aBと\u00a0 "))


@given(st.text(alphabet=st.sampled_from(ALL), max_size=60), st.sampled_from(["zh", "ja", "fr", "my", "nl", "el"]))
def test_nothing_is_lost_by_sentencex(line: str, language: str) -> None:
    pytest.importorskip("sentencex", reason="needs docnmt[documents]")
    assert "".join("".join(splitter("sentencex", language)(line)).split()) == "".join(line.split())


def test_the_splitter_is_chosen_by_the_language_and_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def boundaries(code: str, text: str) -> list[dict[str, int]]:
        asked.append(code)
        return [{"end_index": len(text)}]

    monkeypatch.setitem(sys.modules, "sentencex", SimpleNamespace(get_sentence_boundaries=boundaries))
    split_sentences_module._say_once.cache_clear()
    for language in ("en", "de-AT", "deu_Latn", "fr", "fr", "xx"):
        splitter("auto", language)("Un chien. Un chat.")
    assert asked == ["fr", "fr", "xx"]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "'fr'" in said[0]
    assert "sentencex" in said[0]
    assert "'xx'" in said[1]
    monkeypatch.setitem(sys.modules, "sentencex", None)
    split_sentences_module._say_once.cache_clear()
    assert [splitter("auto", "fr")("Un chien. Un chat.") for _ in range(2)] == [["Un chien.", "Un chat."]] * 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "'fr'" in line
    assert "pip install 'docnmt[documents]'" in line
    with pytest.raises(UserError, match="--splitter"):
        splitter("sentencex", "fr")


def test_where_sentencex_fails_the_rules_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """As Rust's."""

    def boundaries(code: str, text: str) -> list[dict[str, int]]:
        raise PanicException

    monkeypatch.setitem(sys.modules, "sentencex", SimpleNamespace(get_sentence_boundaries=boundaries))
    assert splitter("sentencex", "fr")("Un chien. Un chat.") == ["Un chien.", "Un chat."]


@pytest.mark.parametrize("text", ["“", "« ", "'", "。”", ". . ", "a.1 ", "[1].", "你!"])
def test_sentencex_takes_linear_time(text: str) -> None:
    """Alone it takes the square of the number of quotes that are not closed."""
    pytest.importorskip("sentencex", reason="needs docnmt[documents]")
    times = []
    for length in (20_000, 320_000):
        line, begun = text * (length // len(text)), time.process_time()
        splitter("sentencex", "fr")(line)
        times.append(time.process_time() - begun)
    assert times[1] < 64 * max(times[0], 0.02)  # 16 times the length; the square is 256


@pytest.mark.parametrize(("language", "sentences"), CASES)
def test_sentences_are_found(language: str, sentences: list[str]) -> None:
    found = split_sentences(" ".join(sentences), language)
    assert found == [" ".join(sentence.split()) for sentence in sentences]


def test_a_blank_line_has_none() -> None:
    assert split_sentences("") == split_sentences(" \t ") == []


def test_regional_codes_are_their_language() -> None:
    assert len(split_sentences("Am 3. Mai.", "de-AT")) == 1


@given(st.text(alphabet=st.sampled_from("aB3 .!?…\"')(„“。\t-"), max_size=60), st.sampled_from(["", "en", "de"]))
def test_nothing_is_lost(line: str, language: str) -> None:
    assert "".join("".join(split_sentences(line, language)).split()) == "".join(line.split())


@pytest.mark.parametrize("text", [".", ". ", '."', ". (", "a. b", "x. y ", "?!", "。", '". '])
def test_runs_of_marks_take_linear_time(text: str) -> None:
    begun = time.process_time()
    split_sentences(text * (300_000 // len(text)), "en")
    assert time.process_time() - begun < 3  # it was minutes


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
