"""Languages: codes of two and three letters, and scripts that are written from right to left."""

from __future__ import annotations

import re

from docnmt.runtime.errors import UserError

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
    return re.split(r"[-_]", language.strip().lower())


def tag(language: str) -> str:
    """Return a language as a BCP 47 tag, used in files: `deu_Latn` → `de-Latn`, `pt_br` → `pt-BR`."""
    first, *rest = _parts(language)
    sizes = {2: str.upper, 4: str.title}
    return "-".join([_SHORT.get(first, first), *(sizes.get(len(part), str)(part) for part in rest)])


def right_to_left(language: str) -> bool:
    """Return True if a language, in its given or usual script, is written from right to left."""
    scripts = [part for part in _parts(language)[1:] if len(part) == 4 and part.isalpha()]
    return (scripts[0] if scripts else base(language)) in _FROM_THE_RIGHT


def check_language(said: str | None, language: str, *, file: str, what: str) -> None:
    """Refuse a file in another language than the model's; one that names no language is accepted.

    Raises:
        UserError: the languages differ.
    """
    if said and base(said) != base(language):
        raise UserError(f"{file}: its {what} is '{said}', and the model's is '{language}'; use another model")
