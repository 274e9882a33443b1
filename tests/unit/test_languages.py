"""Languages: codes that mean the same, and what follows from them."""

from __future__ import annotations

import langcodes
import pytest
import sample_documents
from sample_documents import Model, translate
from translate.lang import data

from docnmt.apps.documents.kinds import read
from docnmt.apps.serve.ask import same
from docnmt.core.scoring.metrics import bleu_tokenizer
from docnmt.core.split_sentences import splitter
from docnmt.runtime import languages
from docnmt.runtime.languages import (
    base,
    check_language,
    joined,
    one_line,
    plural_change,
    right_to_left,
    same_language,
    script,
    seam,
    tag,
)
from docnmt.runtime.system import UserError

#: Where langcodes keeps a member of a group apart, or takes another member for the group.
_APART = {"bih": "bho", "fuv": "fuv", "hbs": "sr", "nb": "nb", "nob": "nb", "pbt": "pbt", "prs": "fa", "quy": "quy",
          "tgl": "fil", "twi": "ak"}  # fmt: skip


def test_codes_are_those_of_langcodes() -> None:
    """Every language of two letters that translate-toolkit knows, by its codes of three letters."""
    found = 0
    for code in {name.partition("_")[0] for name in data.languages if "@" not in name}:
        try:
            language = langcodes.get(code)
            variants = {language.to_alpha3("T"), language.to_alpha3("B")}
        except LookupError:  # it has none
            continue
        if len(code) == 2:
            found += 1
            assert {base(variant) for variant in variants} == {base(code)}
            assert all(_APART.get(v, langcodes.standardize_tag(v, macro=True)[:2]) in (code, v) for v in variants)
    assert found > 100


@pytest.mark.parametrize(
    ("code", "alone", "written"),
    [("de", "de", "de"), ("DEU", "de", "de"), ("ger_AT", "de", "de-AT"), ("zho_Hans", "zh", "zh-Hans"),
     ("cmn", "zh", "zh"), ("pt_br", "pt", "pt-BR"), ("iw", "he", "he"), ("nob", "no", "no"), ("ast", "ast", "ast")],
)  # fmt: skip
def test_codes(code: str, alone: str, written: str) -> None:
    assert (base(code), tag(code)) == (alone, written)


@pytest.mark.parametrize("code", ["ar", "ara", "arb_Arab", "heb", "fa-IR", "pes", "urd", "ckb", "az-Arab", "yi"])
def test_what_is_written_from_the_right(code: str) -> None:
    script = langcodes.get(code.replace("_", "-")).maximize().script
    assert script in ("Arab", "Hebr")
    assert right_to_left(code)
    assert not right_to_left(f"{base(code)}-Latn")
    assert not right_to_left("deu")


def test_a_model_of_three_letters_takes_files_of_two() -> None:
    for kind in ("xlf", "po", "tmx", "sdlxliff"):
        content = sample_documents.content(kind)
        found = read(content, kind, name="x", source_lang="eng", target_lang="deu_Latn")
        assert translate(found, Model()) != content
    with pytest.raises(UserError, match=r"'fra'.*'deu'"):
        check_language("fra", "deu", file="x", what="language")


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
SAME_SCRIPT = [
    ("zh_CN", "zh-Hans"), ("zh_TW", "zho_Hant"), ("sr@latin", "sr-Latn"), ("sr_RS", "sr"), ("de_AT", "deu_Latn"),
    ("zh_SG", "cmn"), ("ko_KR", "ko-Kore"), ("ast", "ast-Latn"), ("en_GB", "en"),
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


@pytest.mark.parametrize(("file", "model"), SAME_SCRIPT)
def test_a_catalogue_of_the_same_script_is_filled(file: str, model: str) -> None:
    po = f'msgid ""\nmsgstr ""\n"Language: {file}\\n"\n\nmsgid "A dog"\nmsgstr ""\n'.encode()
    found = read(po, "po", name="x", source_lang="en", target_lang=model)
    assert b"A DOG" in translate(found, Model())
    assert same_language(file, model)


def test_a_memory_has_variants_of_each_script() -> None:
    unit = '<tu><tuv xml:lang="en"><seg>A dog</seg></tuv><tuv xml:lang="{}"><seg>{}</seg></tuv></tu>'
    units = unit.format("zh-TW", "一隻狗") + unit.format("zh-CN", "一只狗")
    content = f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'.encode()
    model = Model()
    out = translate(read(content, "tmx", name="x", source_lang="en", target_lang="zh-Hans"), model).decode()
    assert [each.given for each in model.asked[0]] == [None, "一只狗"]
    assert out.count("一隻狗") == out.count("一只狗") == out.count("A DOG") == 1
    with pytest.raises(UserError, match="zh-CN"):
        read(content, "tmx", name="x", source_lang="ja", target_lang="en")


def test_a_request_for_another_script_is_another_language() -> None:
    """A code alone is any script of the language, as clients that know no scripts send it."""
    for said, own in (("ZH", "zh-Hant"), ("zh", "zho_Hans"), ("de-AT", "deu"), ("ZH-TW", "zh-Hant"), ("EN-GB", "en")):
        assert same(said, own)
    for said, own in (("ZH-HANT", "zh-Hans"), ("zh-TW", "zh"), ("sr-Latn", "sr"), ("de", "en")):
        assert not same(said, own)


#: What stands between two texts: a space or nothing.
SEAMS = [
    ("你好。", "再见。", ""),
    ("你好。", "Hello.", ""),
    ("Hello.", "你好。", " "),
    ("我们", "Python", " "),
    ("今天 2024", "年", ""),
    ("“真的吗？”", "他说。", ""),
    ("你好!", "今天", ""),
    ("……", "——", " "),
    ("好……", "——他", ""),
    ("「はい。」", "『本』", ""),
    ("ราคา", "ดี", ""),
    ("ราคา", "5", " "),
    ("ລາວ", "ລາວ", ""),
    ("ខ្មែរ។", "ខ្មែរ", ""),
    ("မြန်မာ။", "မြန်မာ", ""),
    ("한국어.", "한국어", " "),
    ("책」", "그는", " "),
    ("བོད།", "བོད།", " "),
    ("A dog.", "A cat.", " "),
    ("12", "34", " "),
    ("он.", "Она", " "),
    ("है।", "यह", " "),
    ("Ａ１", "你", ""),
    ("𠮷", "野", ""),
    ("", "你", ""),
    ("👍", "你好", ""),
    ("👍", "Hi", " "),
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


def test_texts_of_scripts_with_spaces_are_joined_as_ever() -> None:
    texts = ["A  dog.", "", "Ein Hund!", "Он", "3.", "(x)"]
    assert joined(texts) == " ".join(filter(None, texts))
    assert one_line("\n a  b\n\nc\t") == "a b c"


def test_three_letters_divide_sentences_and_cut_words_as_two_do() -> None:
    for code in ("de", "deu", "ger-AT"):
        assert len(splitter("rules", code)("Am 3. Mai kam Dr. Maier. Er ging.")) == 2
    assert [bleu_tokenizer(code) for code in ("zho_Hans", "jpn", "kor", "deu")] == ["zh", "ja-mecab", "ko-mecab", "13a"]


@pytest.mark.parametrize("language", sorted(languages._PLURALS))
def test_plural_categories_are_those_of_cldr(language: str) -> None:
    """By Babel, which has CLDR's data; of Romance languages without `many`, which is for millions."""
    babel = pytest.importorskip("babel")
    try:
        expected = set(babel.Locale(language).plural_form.tags)
    except babel.UnknownLocaleError:
        pytest.skip("Babel does not know it")
    found = set(languages._PLURALS[language])
    assert found in (expected, expected - {"many"} if "few" not in expected else expected)


def test_plural_categories_that_come_and_go() -> None:
    assert plural_change("en", "pl_PL") == (["few", "many"], [])
    assert plural_change("en", "ar") == (["zero", "two", "few", "many"], [])
    assert plural_change("rus_Cyrl", "en") == ([], ["few", "many"])
    assert plural_change("en", "ja") == ([], ["one"])
    assert plural_change("en", "tlh") == plural_change("en", "de") == ([], [])


def test_what_is_too_long_for_a_language_is_not_looked_through() -> None:
    """A request's language of 7 MB held the service for seconds."""
    assert base("-" * 1000) == "-" * 1000
    assert not same_language("de-" * 1000, "de")
