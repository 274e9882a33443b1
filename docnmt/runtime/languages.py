"""Languages: codes of two and three letters, their scripts, and what stands between two texts of a script."""

from __future__ import annotations

import re
from collections.abc import Iterable

from docnmt.runtime.system import UserError

#: Codes of three letters (ISO 639-2 and 639-3), each followed by the equivalent of two letters; also the names
#: of a language's standard form in OPUS, FLORES and NLLB, and Java's older codes.
_CODES = (
    "aar aa abk ab afr af aka ak alb sq als sq amh am ara ar arb ar arg an arm hy asm as ava av ave ae aym ay ayr ay "
    "aze az azj az bak ba bam bm baq eu bel be ben bn bih bh bis bi bod bo bos bs bre br bul bg bur my cat ca ces cs "
    "cha ch che ce chi zh chu cu chv cv cmn zh cor kw cos co cre cr cym cy cze cs dan da deu de div dv dut nl dzo dz "
    "ekk et ell el eng en epo eo est et eus eu ewe ee fao fo fas fa fij fj fin fi fra fr fre fr fry fy ful ff fuv ff "
    "gaz om geo ka ger de gla gd gle ga glg gl glv gv gre el grn gn guj gu hat ht hau ha hbs sh heb he her hz hin hi "
    "hmo ho hrv hr hun hu hye hy ibo ig ice is ido io iii ii iku iu ile ie ina ia in id ind id ipk ik isl is ita it "
    "iw he jav jv ji yi jpn ja kal kl kan kn kas ks kat ka kau kr kaz kk khk mn khm km kik ki kin rw kir ky kmr ku "
    "kom kv kon kg kor ko kua kj kur ku lao lo lat la lav lv lim li lin ln lit lt ltz lb lub lu lug lg lvs lv mac mk "
    "mah mh mal ml mao mi mar mr may ms mkd mk mlg mg mlt mt mo ro mon mn mri mi msa ms mya my nau na nav nv nb no "
    "nbl nr nde nd ndo ng nep ne npi ne nld nl nno nn nob no nor no nya ny oci oc oji oj ori or orm om ory or oss os "
    "pan pa pbt ps per fa pes fa pli pi plt mg pol pl por pt prs fa pus ps que qu quy qu roh rm ron ro rum ro run rn "
    "rus ru sag sg san sa sin si slk sk slo sk slv sl sme se smo sm sna sn snd sd som so sot st spa es sqi sq srd sc "
    "srp sr ssw ss sun su swa sw swe sv swh sw tah ty tam ta tat tt tel te tgk tg tgl tl tha th tib bo tir ti ton to "
    "tsn tn tso ts tuk tk tur tr twi tw uig ug ukr uk urd ur uzb uz uzn uz ven ve vie vi vol vo wel cy wln wa wol wo "
    "xho xh ydd yi yid yi yor yo zha za zho zh zsm ms zul zu"
)
_SHORT = dict(zip(_CODES.split()[::2], _CODES.split()[1::2], strict=True))
#: Languages and scripts that are written from right to left.
_RTL = "ar arc azb bal ckb dv fa glk he ks lrc mzn nqo pnb ps sd skr syr ug ur yi arab hebr thaa syrc nkoo adlm rohg"
_FROM_THE_RIGHT = frozenset(_RTL.split())
#: Languages of two letters that are not written in Latin letters, by their usual script (CLDR).
_NOT_LATIN = {
    "Arab": "ar ckb fa ks ps sd ug ur", "Armn": "hy", "Beng": "as bn", "Cans": "cr iu",
    "Cyrl": "ab av ba be bg ce cu cv kk kv ky mk mn os ru sr tg tt uk", "Deva": "bh hi mr ne sa", "Ethi": "am ti",
    "Geor": "ka", "Grek": "el", "Gujr": "gu", "Guru": "pa", "Hang": "ko", "Hans": "zh", "Hant": "yue", "Hebr": "he yi",
    "Jpan": "ja", "Khmr": "km", "Knda": "kn", "Laoo": "lo", "Mlym": "ml", "Mymr": "my", "Orya": "or", "Sinh": "si",
    "Taml": "ta", "Telu": "te", "Thaa": "dv", "Thai": "th", "Tibt": "bo dz", "Yiii": "ii",
}  # fmt: skip
_SCRIPTS = {code: name for name, codes in _NOT_LATIN.items() for code in codes.split()}
#: Regions whose script is another than the language's usual one.
_SCRIPTS |= {
    "az-iq": "Arab", "az-ir": "Arab", "kk-cn": "Arab", "ky-cn": "Arab", "ky-tr": "Latn", "mn-cn": "Mong",
    "ms-cc": "Arab", "pa-pk": "Arab", "sr-me": "Latn", "sr-ro": "Latn", "sr-tr": "Latn", "tg-pk": "Arab",
    "ug-kz": "Cyrl", "uz-af": "Arab", "yue-cn": "Hans", "zh-hk": "Hant", "zh-mo": "Hant", "zh-tw": "Hant",
}  # fmt: skip
#: Other names of scripts: those of gettext and of Windows, and parts of a script that have a code of their own.
_SCRIPT_NAMES = {
    "arabic": "arab", "cyrillic": "cyrl", "devanagari": "deva", "ijekavianlatin": "latn", "iqtelif": "latn",
    "latin": "latn", "chs": "hans", "cht": "hant", "kore": "hang",
}  # fmt: skip

#: Characters of scripts without spaces between words, to stand in a class of an expression: letters of Chinese and
#: Japanese, Thai with Lao, Burmese and Khmer, and signs of Chinese and Japanese, whose shape has white space in it.
CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u302d\u3031-\u303c\u3040-\u30fa\u30fc-\u312f\u31a0-\u31ff\u3400-\u4dbf"
    "\u4e00-\ua4cf\uf900-\ufaff\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f\U00016fe0-\U00018fff"
    "\U0001b000-\U0001b2ff\U00020000-\U0003ffff"
)
SOUTHEAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f"
WIDE_SIGNS = (
    "\u3000-\u3004\u3008-\u3020\u3030\u303d-\u303f\u30fb\ufe10-\ufe1f\ufe30-\ufe6f\uff01-\uff0f\uff1a-\uff20"
    "\uff3b-\uff40\uff5b-\uff65\uffe0-\uffe6"
)
_CJK, _SOUTHEAST, _WIDE_SIGN = (re.compile(f"[{characters}]") for characters in (CJK, SOUTHEAST, WIDE_SIGNS))
_TIBETAN = re.compile("[\u0f00-\u0fff]")  # which has spaces between sentences
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\uffa0-\uffdc]")
#: Characters on each side of a seam that are looked at for one that tells the script.
_NEAR = 20
_LINES = re.compile("[\r\n\v\f\x85\u2028\u2029]+")
#: The categories of plural forms in the order in which CLDR names them; every language has the last one.
PLURALS = ("zero", "one", "two", "few", "many", "other")
#: Beside `other`, by language (CLDR 46, cardinal numbers). Without `many` of Romance languages, which is for millions.
_PLURAL_RULES = {
    "": "bo dz id ig ja jv km ko lo ms my su th to wo yo yue zh",
    "one": (
        "af am an as az bg bn ca da de el en eo es et eu fa ff fi fo fr fy gl gu ha hi hu hy ia io is it ka kk kl kn "
        "ku ky lb ln mg mk ml mn mr nb ne nl nn no om or os pa ps pt rm sc sd si sn so sq ss st sv sw ta te ti tk tl "
        "tn tr ts ug ur uz ve xh zu"
    ),
    "one few": "bs hr mo ro sr", "one few many": "be cs lt pl ru sk uk", "one two": "he iu se",
    "one two few": "dsb gd hsb sl", "one two few many": "br ga gv mt", "zero one": "lv",
    "zero one two few many": "ar cy kw",
}  # fmt: skip
_PLURALS = {code: names.split() for names, codes in _PLURAL_RULES.items() for code in codes.split()}


def plural_change(source: str, target: str) -> tuple[list[str], list[str]]:
    """Plural categories that a target language has and the source has not, in CLDR's order, and those of the source
    that it lacks; none where one of both languages is not in the table."""
    theirs, ours = (_PLURALS.get(base(language)) for language in (source, target))
    if theirs is None or ours is None:
        return [], []
    return [name for name in ours if name not in theirs], [name for name in theirs if name not in ours]


def base(language: str) -> str:
    """Return the language alone, as a code of two letters if it has one: `de-AT`, `deu_Latn` and `ger` → `de`."""
    code = _parts(language)[0]
    return _SHORT.get(code, code)


def _parts(language: str) -> list[str]:
    if len(language) > _LONGEST:  # of strangers: it is no language, and is not looked through
        return [language]
    return [_SCRIPT_NAMES.get(part, part) for part in re.split(r"[-_@]", language.strip().lower())]


#: A tag of BCP 47 is shorter.
_LONGEST = 100


def tag(language: str) -> str:
    """Return a language as a BCP 47 tag, used in files: `deu_Latn` → `de-Latn`, `pt_br` → `pt-BR`."""
    first, *rest = _parts(language)
    sizes = {2: str.upper, 4: str.title}
    return "-".join([_SHORT.get(first, first), *(sizes.get(len(part), str)(part) for part in rest)])


def right_to_left(language: str) -> bool:
    """Return True if a language, in its given or usual script, is written from right to left."""
    return (_named_script(language) or base(language)) in _FROM_THE_RIGHT


def script(language: str) -> str:
    """Return the script of a language, by its code (ISO 15924): the one that is named (`zh-Hant`, `sr@latin`), the
    region's (`zh_TW`) or the usual one; "" where it is not known."""
    code, parts = base(language), _parts(language)[1:]
    regional = (_SCRIPTS[f"{code}-{part}"] for part in parts if f"{code}-{part}" in _SCRIPTS)
    usual = _SCRIPTS.get(code, "Latn" if len(code) == 2 else "")
    return _named_script(language).title() or next(regional, usual)


def _named_script(language: str) -> str:
    return next((part for part in _parts(language)[1:] if len(part) == 4 and part.isalpha()), "")


def same_language(one: str, other: str) -> bool:
    """Return True if two codes are of one language in one script, as far as both scripts are known."""
    scripts = {script(one), script(other)} - {""}
    return base(one) == base(other) and len(scripts) < 2


def check_language(said: str | None, language: str, *, file: str, what: str) -> None:
    """Refuse a file in another language or script than the model's; one that names no language is accepted."""
    if not said or same_language(said, language):
        return
    problem = f"{file}: its {what} is '{said}', and the model's is '{language}'"
    if base(said) == base(language):
        scripts = f"{script(said)} and {script(language)}"
        raise UserError(f"{problem}: other scripts ({scripts}); use another model, or correct the file's {what}")
    raise UserError(f"{problem}; use another model")


def joined(texts: Iterable[str]) -> str:
    """Join texts, sentences or lines, to one: by spaces, and by nothing within a script that has none (`seam`)."""
    parts: list[str] = []
    for text in filter(None, texts):
        parts += [seam(parts[-1], text), text] if parts else [text]
    return "".join(parts)


def one_line(text: str) -> str:
    """Return a text in one line, with single spaces; at line breaks, what `seam` says."""
    return joined(" ".join(line.split()) for line in _LINES.split(text))


def seam(before: str, after: str) -> str:
    """Return what stands between two texts that follow each other: a space or nothing.

    Nothing stands between two characters of scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and
    beside the wide signs of Chinese and Japanese; quotes, brackets and ASCII signs at the seam are looked through. A
    space stands behind a full stop of ASCII (`1. 你好`, `好. 你`), which ends no sentence without one."""
    if before.endswith("."):
        return " "
    kinds = {_kind(before[: -_NEAR - 1 : -1]), _kind(after[:_NEAR])}
    if "wide" in kinds:
        return " " if "hangul" in kinds else ""
    if "cjk" in kinds:
        return " " if kinds & {"spaced", "hangul"} else ""
    return "" if "southeast" in kinds and kinds <= {"southeast", ""} else " "


def unspaced(character: str, *, all: bool = True) -> bool:
    """Return True for a character of a script without spaces between words, letter or sign; without `all`, of Chinese
    or Japanese."""
    scripts = (_CJK, _WIDE_SIGN, _SOUTHEAST, _TIBETAN) if all else (_CJK, _WIDE_SIGN)
    return any(script.match(character) for script in scripts)


def _kind(characters: str) -> str:
    """The first kind of script among characters, "" if they are signs of all scripts."""
    for character in characters:
        if character.isascii() or character.isspace():
            if character.isalnum():
                return "number" if character.isdigit() else "spaced"
        elif _WIDE_SIGN.match(character):
            return "wide"
        elif _CJK.match(character):
            return "cjk"
        elif _SOUTHEAST.match(character):
            return "southeast"
        elif character.isalnum():
            return "hangul" if _HANGUL.match(character) else "number" if character.isdigit() else "spaced"
    return ""
