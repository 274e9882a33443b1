"""Languages: codes that mean the same, and what follows from them."""

from __future__ import annotations

import langcodes
import pytest
import sample_documents
from sample_documents import Model, translate
from translate.lang import data

from docnmt.apps.documents import read
from docnmt.core.formats.split_sentences import splitter
from docnmt.core.scoring.metrics import bleu_tokenizer
from docnmt.runtime import languages
from docnmt.runtime.errors import UserError
from docnmt.runtime.languages import base, check_language, plural_change, right_to_left, tag

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
    with pytest.raises(UserError, match="'fra', and the model's is 'deu'"):
        check_language("fra", "deu", file="x", what="language")


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
