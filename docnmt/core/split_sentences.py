"""Running text → documents of sentences, by rules for sentence ends; translations → the rows of the input.
lines, a table or a corpus → `RunningText` (documents, and the rows that contain them) → `RunningText.joined`
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from docnmt.core.corpus import Document
from docnmt.core.data_options import Columns
from docnmt.core.read_corpus import TextLines, check_marks, is_blank, kind_of_line
from docnmt.runtime.languages import CJK, base, joined
from docnmt.runtime.system import UserError

#: The notation of a line break inside a line.
BREAK = "\\n"
#: The column of translations in tables.
_HYPOTHESIS = "hypothesis"
_RENAME = "the translation would stand there: rename it or take it out"
Split = Callable[[str], list[str]]


@dataclass
class RunningText:
    """Documents as sentences, with the rows of the input that contain them."""

    documents: list[Document] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)  # of each row the numbers of sentences of its lines
    frames: list[Callable[[str], str]] = field(default_factory=list)  # a row's translation, with line breaks → output
    head: str | None = None  # the first line of output

    @classmethod
    def of(cls, counts: Sequence[int]) -> RunningText:
        """Return rows of one line with these numbers of sentences, written unchanged."""
        return cls(rows=[[count] for count in counts], frames=[str] * len(counts))

    @classmethod
    def together(cls, parts: Iterable[RunningText]) -> RunningText:
        """Concatenate parts of one input."""
        whole = cls()
        for part in parts:
            whole.documents += part.documents
            whole.rows += part.rows
            whole.frames += part.frames
            whole.head = part.head if whole.head is None else whole.head
        return whole

    @property
    def size(self) -> int:
        """The number of characters, plus one for each row."""
        return len(self.rows) + sum(len(text) for document in self.documents for text in document.sentences)

    def joined(self, translations: Iterator[str]) -> Iterator[str]:
        """Yield the lines of output: the translations of a line's sentences are joined (`languages.joined`)."""
        if self.head is not None:
            yield self.head
        for counts, frame in zip(self.rows, self.frames, strict=True):
            yield frame("\n".join(joined(itertools.islice(translations, count)) for count in counts))


@dataclass
class _Open(RunningText):
    """A document to which rows are still added."""

    sentences: list[str] = field(default_factory=list)
    units: list[tuple[str, ...]] = field(default_factory=list)

    def row(
        self, lines: Sequence[Sequence[str]], frame: Callable[[str], str] = str, units: tuple[str, ...] = ()
    ) -> None:
        self.sentences += itertools.chain.from_iterable(lines)
        self.units += [units] * sum(map(len, lines))
        self.rows.append([len(sentences) for sentences in lines])
        self.frames.append(frame)

    def close(self, *, units: bool = False) -> RunningText:
        """Return the rows with this document, which may be empty; `units` says if its sentences' units are known."""
        document = Document(tuple(self.sentences), tuple(self.units) if units else ())
        return RunningText([document], self.rows, self.frames)


def of_sentences(lines: TextLines, split: Split = lambda line: [line]) -> Iterator[RunningText]:
    """Read the plain form of a corpus, a sentence per line, which `split` may divide; yield each document at its end:
    an empty line or `<d>`, both written as an empty line. Paragraphs are known from the first document on that has a
    line `<p>`."""
    kinds, text, paragraph = set[str](), _Open(), 0
    for number, line in enumerate(lines, 1):
        kind = kind_of_line(line)
        kinds.add(kind)
        check_marks(kinds, f"{lines.name}:{number}")
        if kind == "text":
            text.row([split(line)], units=(str(paragraph),))
        elif kind == "<p>":
            paragraph += 1
        elif text.rows:
            text.row([[]])
            yield text.close(units="<p>" in kinds)
            text = _Open()
        elif kind == "":
            yield RunningText.of([0])
    if text.rows:
        yield text.close(units="<p>" in kinds)


def of_documents(lines: TextLines, split: Split) -> Iterator[RunningText]:
    r"""Read a document per line, whose own lines are separated by `\n`, two characters, as in the output."""
    for line in lines:
        text = _Open()
        text.row([split(part) for part in line.split(BREAK)], lambda translation: translation.replace("\n", BREAK))
        yield text.close()


def of_table(lines: TextLines, kind: str, given: Columns, language: str, split: Split) -> Iterator[RunningText]:
    """Read the source column of a TSV or JSONL file; each row is written with its translation in an additional column.
    Yield each document at its end: where a row begins another one, has no text, or is a whole document."""
    from docnmt.core.tables import BREAKS, label_of, open_columns, text_of

    table, columns = open_columns(lines, given, (language, ""), kind=f".{kind}")
    text = _Open()
    if table.header:
        if _HYPOTHESIS in table.names:
            raise UserError(f"{lines.name}:1: there is a column '{_HYPOTHESIS}' already; {_RENAME}")
        yield RunningText(head="\t".join([*table.names, _HYPOTHESIS]))
    before: tuple[str, ...] | None = None  # the document of the last row; None: it has ended
    for row in table.rows([*columns.source, *columns.document]):
        cell, document = row.values[0], tuple(label_of(value, row.place) for value in row.values[1:])
        whole = isinstance(cell, list) and not document
        texts = [text_of(value, row.place) for value in (cell if isinstance(cell, list) else [cell])]
        entries = [BREAKS.split(value) for value in texts]
        parts = [*itertools.chain.from_iterable(entries)]
        if text.rows and (whole or document != before):
            yield text.close()
            text = _Open()
        sizes = [len(entry) for entry in entries] if isinstance(cell, list) else None
        frame = _framed_json(row.line, row.place, sizes) if kind == "jsonl" else partial(_tsv_row, row.line)
        text.row([split(line) for line in parts], frame)
        before = document if not whole and (document or not all(map(is_blank, parts))) else None
        if before is None:
            yield text.close()
            text = _Open()
    if text.rows:
        yield text.close()


def _framed_json(line: str, where: str, sizes: Sequence[int] | None) -> Callable[[str], str]:
    """What adds the translation to a row; to one of a list, whose entries have `sizes` lines, as a list."""
    if _HYPOTHESIS in json.loads(line):
        raise UserError(f"{where}: the row has a '{_HYPOTHESIS}' already; {_RENAME}")
    fields = line.rstrip().removesuffix("}").rstrip()  # as written: 1.10 stays 1.10

    def framed(translation: str) -> str:
        rest = iter(translation.split("\n"))
        value = translation if sizes is None else ["\n".join(itertools.islice(rest, size)) for size in sizes]
        return f'{fields}, "{_HYPOTHESIS}": {json.dumps(value, ensure_ascii=False)}}}'

    return framed


def _tsv_row(line: str, translation: str) -> str:
    return f"{line}\t{translation}" if line else line


# Division of raw text into sentences: by our own rules, or by the package sentencex, whose faults the rules mend.
# A sentence ends at `.`, `!`, `?` or `…`, the closing quotes and brackets and the number of a note after it, if white
# space follows and then a character that can begin a sentence. Marks of other scripts (`。`, `।`, `؟`, `።` …) end one
# anywhere, with the quotes and brackets that close behind them. A full stop ends none after a known abbreviation, an
# initial, a dotted abbreviation (`e.g.`, `U.S.`, `z. B.`) or, in languages that write ordinals with one, a number of
# one or two digits. The sentences of a line, joined by `languages.joined`, are the line up to white space.


#: Abbreviations before a capital inside a sentence, in lower case; not those that often end one (etc., usw., Inc.).
_GENERAL = "dr prof st vs al ca cf op ed vol chr"
_ABBREVIATIONS = {
    "": "",
    "en": "mr mrs ms messrs jr sr rev hon gov sen rep gen col lt capt cmdr maj sgt adm pres supt insp mt ft "
    "jan feb mar apr aug sept oct nov dec approx viz dept univ assn bros",
    "de": "hr hrn fr frl dipl ing med phil jur rer nat habil bzw evtl ggf inkl exkl zzgl abzgl vgl sog bspw allg "
    "insb bes urspr geb gest verh gegr hl str pl tel abt abb abs abschn anm bd bde jh jhd jan feb apr jun jul aug sept "
    "okt nov dez fr mio mrd tsd mind höchst zz zt hrsg übers",
    "es": "sr sra srta sres sras srtas dra dres dras dn dña profa lic lcda lcdo ing arq mtro mtra mons pbro rvdo rvda "
    "excmo excma ilmo ilma hno hna gral cnel cap tte sgto cmdte sto sta ud uds vd vds ee núm art avda cía",
    "it": "sig sigg dott dottssa dottor profssa ing avv arch geom rag on sen cav comm mons fra ill egr spett gent preg "
    "gen col cap magg ten pres min ss",
    "nl": "dhr mevr mw mej drs ir ing mr bc ds em jhr jkvr bijv resp kol lt gen sgt burg",
    "pt": "sr sra srs sras srta dra drs dras eng engª enga profª profa arq exmo exma exa ilmo ilma rev pe sto sta cel "
    "cap ten sgt gen maj av",
    "cs": "ing mgr bc mudr judr phdr rndr mvdr pharmdr thdr paeddr mddr phmr doc arch akad plk gen kpt por mjr npor "
    "prap sv ul nám např tzv mj popř resp tř",
    "pl": "hab inż mgr lic ks bp abp kard gen płk ppłk mjr kpt por ppor sierż św im ul al pl os np tzw tj red m.in",
    "fr": "mr mm mme mmes mlle mlles dre pr me mgr mgrs ste sgt cdt gén lt bd boul env chap art tél réf éd c.-à-d",
    "ru": "гг проф акад доц инж им ул пл пр просп пер наб корп стр тов чл св ср рис табл напр обл ген полк адм еп "
    "архиеп митр зам зав ред изд англ нем лат гр г-н г-жа о-в",
    "uk": "гг проф акад доц інж ім вул пл просп пров бул св див рис табл напр обл ген ред англ",
}
_ABBREVIATIONS["sk"] = f"{_ABBREVIATIONS['cs']} napr tzn pplk"
ABBREVIATIONS: dict[str, frozenset[str]] = {
    language: frozenset(f"{_GENERAL} {words}".split()) for language, words in _ABBREVIATIONS.items()
}
#: Abbreviations before numbers: they end no sentence before a digit.
_NUMBERED = (
    "no nr nos nrn fig figs p pp s sec ch chap art abs kap eq bd ziff rn vv núm pág págs nº č čís str рис табл min max "
    "mon tue wed thu fri sat sun mo di mi do sa so"
)
_BEFORE_NUMBERS = frozenset(_NUMBERED.split())
#: Words of one letter that end sentences as others do.
_ONE_LETTER = {"": "I", "en": "I", "ru": "я", "it": "è", "pt": "é"}
#: Languages that write ordinals with a full stop, like `3. Mai`.
_ORDINALS = "de da nn no fi et lv cs sk sl hr sr bs hu tr is"
_ORDINAL_LANGUAGES = frozenset(_ORDINALS.split())
#: Number of characters examined before a mark; no abbreviation is longer.
_LONGEST_WORD = 200
#: Longer sentences (in characters) are cut: models have seen none, and search takes time quadratic in the length.
_LONGEST_SENTENCE = 1500

_CLOSING = "\"'”’»›«‹)\\]}“‘"
_OPENING = "\"'“‘„‚«‹»›(\\[{¿¡–—\\-"
#: Numbers and signs of notes.
_NOTE = r"[⁰¹²³⁴-⁹†‡]{1,6}|\d{1,3}|(?:\[[^\[\]]{1,24}\]){1,9}"
#: Marks that end a sentence anywhere, and what closes behind them: `“` does not, as it opens in these scripts.
_ANYWHERE = "。！？｡۔।॥።፧፨։။។៕؟᱾᱿꯫"
_CLOSING_ANYWHERE = '”’」』）》〉】〕］｝｣")\\]}»›'
#: What shows, directly behind such a mark, that the sentence goes on: a comma; behind a quotation also a dash, and
#: words that belong to it.
_COMMA = re.compile("[，、；：,;:]")
_GOES_ON = {
    "": re.compile("[—–―-]"),
    "ja": re.compile("[—–―]|と|って|という|は(?!い)|が|を|の|など|です|だ(?![かがけ])|で(?!も|は)|に|も(?!し)"),
    "zh": re.compile("[—–―]|的"),
}
#: Languages in which another mark ends sentences, too.
_MORE_MARKS = {"el": ";", "hy": ":"}
_FOLLOWING = re.compile(rf"[{_OPENING}\s]*(\S)")
_DUTCH = re.compile(r"['’][stn]\s+[A-Z]")
_TEXT, _SPACE = re.compile(r"\S"), re.compile(r"\s")
#: The last word of a text; a Latin one begins behind Chinese and Japanese characters, too (`或D.C. Goldrei`).
_BEFORE_WORD = "\\s(\\[{\"'„“»«‚‘\u3000-\u9fff\uf900-\ufaff\uff00-\uffef"
_LAST_WORD = re.compile(rf"(?<![^{_BEFORE_WORD}])[^{_BEFORE_WORD}]*$")
#: Languages that sentencex has rules of; of all others it knows the marks only.
_SENTENCEX = (
    "ab am an ar arz ast av ba bg bn ca ce co cs cv da el es ext fi fr fur gl gn gu hi ht hy it ja kk kn lb li lmo ln "
    "mai mg ml mr my nap nl oc os pa pl pms pt qu rm ru sa scn sk sg szl ta te tt ty uk vec wa wo zea"
)
#: Languages whose marks end sentences and nothing else.
_PLAIN_MARKS = "as bh fa km ks mni ne or ps sat sd ti ug ur yue zh"
#: Characters that sentencex gets at once: its time is quadratic where quotes are not closed.
_WINDOW = 2000


def splitter(name: str, language: str) -> Callable[[str], list[str]]:
    """Return a function that divides a line into sentences: by our own `rules`, by the package `sentencex`, mended by
    them, or `auto`, the rules for English and German and sentencex for others, if it is installed. It says once on
    stderr which one it is, and cuts sentences of more than `_LONGEST_SENTENCE` characters."""
    if name not in ("auto", "rules", "sentencex"):
        raise UserError(f"splitter: expected auto, rules or sentencex, got {name!r}")
    code, boundaries, note = base(language), None, ""
    if name == "sentencex" or (name == "auto" and code not in ("", "en", "de")):
        try:
            boundaries = _sentencex(code)
            note = f"note: sentences of '{language}' are found by sentencex"
        except ImportError as error:
            if name == "sentencex":
                raise UserError("--splitter sentencex needs an extra: pip install 'docnmt[documents]'") from error
            note = f"note: sentences of '{language}' are found by docnmt's rules, made for English and German; for more"
            note += " languages: pip install 'docnmt[documents]'"
        if name == "auto" and code and code not in f"en de {_SENTENCEX} {_PLAIN_MARKS}".split():
            note = f"note: neither docnmt nor sentencex has rules for '{language}'; common marks end its sentences"

    def split(line: str) -> list[str]:
        if name == "auto" and note:
            _say_once(note)
        return split_sentences(line, code, boundaries)

    return _cutting(split)


@functools.cache
def _say_once(note: str) -> None:
    print(note, file=sys.stderr)


def _sentencex(code: str) -> Callable[[str], list[int] | None]:
    """Return a function that finds the beginnings of sentences in a line by sentencex, None if it cannot."""
    from sentencex import get_sentence_boundaries

    def boundaries(line: str) -> list[int] | None:
        begins, begin = list[int](), 0
        while begin < len(line):
            window = _SPACE.sub(" ", line[begin : begin + _WINDOW])  # it stops at some wide spaces
            try:
                ends = [begin + int(sentence["end_index"]) for sentence in get_sentence_boundaries(code, window)]
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # a fault of its own in Rust
                    raise
                return None
            last = begin + len(window)
            if last < len(line):  # the last sentence may go on
                ends = [end for end in ends if end < last]
                last = ends[-1] if ends else last
            begins += ends
            begin = last
        return begins

    return boundaries


def whole_lines() -> Callable[[str], list[str]]:
    """Return a function that treats a line as one sentence and cuts it if it is too long."""
    return _cutting(lambda line: [line])


def _cutting(split: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    said = False

    def cut(line: str) -> list[str]:
        nonlocal said
        sentences = split(line)
        pieces = [piece for sentence in sentences for piece in cut_long(sentence, _LONGEST_SENTENCE)]
        if len(pieces) > len(sentences) and not said:
            said = True
            length = max(map(len, sentences))  # and not its text, which a service may not log
            print(
                f"warning: a sentence of {length:,} characters is divided into pieces, as is every other one of more"
                f" than {_LONGEST_SENTENCE:,}",
                file=sys.stderr,
            )
        return pieces

    return cut


def cut_long(sentence: str, longest: int) -> list[str]:
    """Cut a sentence into pieces of at most `longest` characters after `;`, `:` or `,`, else at a space, else anywhere;
    joined by spaces where there were some, they are the sentence."""
    pieces, begin = [], 0
    while len(sentence) - begin > longest:
        head = sentence[begin : begin + longest + 1]
        cuts = (max(head.rfind(mark) for mark in ("; ", ": ", ", ")) + 1, head.rfind(" "), longest)
        cut = next(cut for cut in cuts if cut > longest // 2 or cut == longest)
        pieces.append(head[:cut])
        begin += cut
        begin = len(sentence) if (text := _TEXT.search(sentence, begin)) is None else text.start()
    return [*pieces, sentence[begin:]] if begin < len(sentence) else pieces


def split_sentences(
    line: str, language: str = "", boundaries: Callable[[str], Sequence[int] | None] | None = None
) -> list[str]:
    """Return the sentences of one line, in order, without surrounding white space; none for a blank line. Unknown
    languages use the common rules. `boundaries` says where sentences begin, in rising order, where the rules are not
    sure."""
    language = base(language)
    proposed = None if boundaries is None else boundaries(line)
    begin, ends, free = 0, list[int](), 0
    quotes = _Quotes(line)
    for match in _candidates(_MORE_MARKS.get(language, "")).finditer(line):
        sure = match[1] is None
        if sure:
            end, divides = _anywhere(match, quotes, language)
        else:
            before = line[max(begin, match.start() - _LONGEST_WORD) : match.start()]
            end, (divides, sure) = match.end(), _ends(before, match, language)
        if proposed is not None:
            first, last = bisect_left(proposed, match.start()), bisect_right(proposed, match.end())
            ends += filter(functools.partial(_divides, line), proposed[free:first])
            divides, free = divides if sure else first < last, last
        if divides:
            ends.append(end)
            begin = end
    if proposed is not None:
        ends += filter(functools.partial(_divides, line), proposed[free:])
    sentences = (line[a:b] for a, b in pairwise([0, *ends, len(line)]))
    return [" ".join(sentence.split()) for sentence in sentences if sentence.strip()]


@functools.cache
def _candidates(more: str) -> re.Pattern[str]:
    """Places where sentences may end, a run of marks at its beginning only; groups: the marks, what closes, a note."""
    marks = f".!?…\u037e{more}"
    return re.compile(
        rf"(?<![{marks}])([{marks}]+)([{_CLOSING}]*(?:[ \u00a0\u202f]»[{_CLOSING}]*)?)({_NOTE})?\s+"
        rf"|[{_ANYWHERE}][{_ANYWHERE}.!?…{_CLOSING_ANYWHERE}]*(?:[⁰¹²³⁴-⁹†‡]{{1,6}}|(?:\[\d{{1,3}}\]){{1,9}})?"
        rf"|(?<=[{CJK}])[!?]+[”’」』）》〉】〕］｝｣)\]}}]*(?=[“‘「『《（【{CJK}])"
    )


class _Quotes:
    """Counts straight quotes up to a character; asked from left to right."""

    def __init__(self, line: str) -> None:
        self._line, self._counted, self._count = line, 0, 0

    def opens(self, at: int) -> bool:
        """Return True if a quote at this character is the first of a pair."""
        self._count += self._line.count('"', self._counted, at)
        self._counted = at
        return self._count % 2 == 0


def _anywhere(match: re.Match[str], quotes: _Quotes, language: str) -> tuple[int, bool]:
    """Return where a mark that ends sentences anywhere ends, with what closes behind it, and whether it ends one."""
    line, end = match.string, match.end()
    opening = (at for at in range(match.start(), end) if line[at] == '"' and quotes.opens(at))
    end = next(opening, end)
    if _COMMA.match(line, end) or (match[0] == "។" and line.startswith("ល។", end)):
        return end, False
    quoted = line[end - 1] in '”’」』"»›'
    return end, not (quoted and _GOES_ON.get(language, _GOES_ON[""]).match(line, end))


def _divides(line: str, at: int) -> bool:
    """Return True if a proposed boundary has white space or another script's sign before what can begin a sentence."""
    following = _FOLLOWING.match(line, at)
    if following is None or following[1].islower() or at == 0:
        return False
    return line[at - 1].isspace() or line[at].isspace() or not line[at - 1].isascii()


def _ends(before: str, match: re.Match[str], language: str) -> tuple[bool, bool]:
    """Return whether a sentence ends at a candidate, and whether this is sure: a splitter may know better."""
    marks, closing, note = match[1], match[2], match[3]
    following = _FOLLOWING.match(match.string, match.end())
    if following is None or following[1] in ".!?…":  # `. . .`
        return False, True
    begins = language == "nl" and _DUTCH.match(match.string, match.end()) is not None
    lower = following[1].islower() and not begins
    if lower and (marks != "." or closing):
        return False, True
    if note and note.isdecimal() and not closing and not before[-1:].isalpha() and before[-1:] not in tuple(")]”»"):
        return False, True
    if marks != "." or closing:
        return True, bool(closing or note)
    last = _LAST_WORD.search(before)
    word = last[0] if last else ""
    first = match.start() <= _LONGEST_WORD and before.strip() == word
    if word.isdigit():
        if len(word) <= 3 and first:  # `1. Create a folder.` is one item
            return False, True
        counted = re.search(r"\.\s+\d+$", before) is not None  # `S. 5.` is no ordinal
        ordinal = not counted and len(word) <= 2 and language in _ORDINAL_LANGUAGES
        return not lower and not ordinal, ordinal or lower
    if len(word) == 1 and word.isalpha():
        year = language in ("ru", "uk") and re.search(r"\d\s+\S$", before) is not None  # `1990 г.`
        divides = not lower and (year or word == _ONE_LETTER.get(language))
        return divides, not divides
    folded = word.lower()
    if (following[1].isdigit() or note) and folded in _BEFORE_NUMBERS:
        return False, True
    counts = word[-1:].isdigit() and not first and language not in _ORDINAL_LANGUAGES  # `2.5`, which no day is
    dotted = "." in word and not counts and all(len(part) <= 1 for part in word.split("."))
    if dotted or folded in ABBREVIATIONS.get(language, ABBREVIATIONS[""]):
        return False, True
    return not lower, begins or (bool(note) and not lower)
