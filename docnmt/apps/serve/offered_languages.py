"""Names and codes of languages, as clients use them."""

from __future__ import annotations

from docnmt.runtime.languages import base, same_language

_NAMES = """
af Afrikaans|am Amharic|ar Arabic|az Azerbaijani|be Belarusian|bg Bulgarian|bn Bengali|bs Bosnian|ca Catalan|cs Czech
cy Welsh|da Danish|de German|el Greek|en English|eo Esperanto|es Spanish|et Estonian|eu Basque|fa Persian|fi Finnish
fr French|ga Irish|gl Galician|gu Gujarati|ha Hausa|he Hebrew|hi Hindi|hr Croatian|hu Hungarian|hy Armenian
id Indonesian|ig Igbo|is Icelandic|it Italian|ja Japanese|ka Georgian|kk Kazakh|km Khmer|kn Kannada|ko Korean|la Latin
lb Luxembourgish|lo Lao|lt Lithuanian|lv Latvian|mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese
my Burmese|nb Norwegian|ne Nepali|nl Dutch|pa Punjabi|pl Polish|ps Pashto|pt Portuguese|ro Romanian|ru Russian
sk Slovak|sl Slovenian|sq Albanian|sr Serbian|sv Swedish|sw Swahili|ta Tamil|te Telugu|th Thai|tl Tagalog|tr Turkish
uk Ukrainian|ur Urdu|uz Uzbek|vi Vietnamese|xh Xhosa|yo Yoruba|zh Chinese|zu Zulu
"""
#: The English name of each code.
NAMES: dict[str, str] = {
    code: name
    for code, _, name in (entry.partition(" ") for line in _NAMES.split("\n") for entry in line.split("|") if entry)
}
_CODES = {name.lower(): code for code, name in NAMES.items()}


def name_of(code: str) -> str:
    """Return the English name of a language, `German` for `de-AT`; a code without a name is returned unchanged."""
    return NAMES.get(base(code), code)


def code_of(said: str) -> str | None:
    """Return the code of a language: `de` for `German`, `de`, `de-DE` and `German (Austria)`; None if it is unknown."""
    said = said.strip().lower()
    name = said.partition("(")[0].strip()
    if name in _CODES:
        return _CODES[name]
    return base(said) if base(said) in NAMES else None


def same(said: str, own: str) -> bool:
    """Return True if two codes name the same language; the country is ignored, unless it says a script."""
    return base(said) == base(own) if said.isalpha() else same_language(said, own)
