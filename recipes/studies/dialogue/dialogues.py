"""Dialogues for recipes/studies/dialogue: their texts, what is given of them, and the table of results.

python recipes/studies/dialogue/dialogues.py text CORPUS/train OUT/train --languages en fr
python recipes/studies/dialogue/dialogues.py given OUT/test --languages en fr
python recipes/studies/dialogue/dialogues.py paragraphs OUT/test PARAGRAPHS/test --languages en fr
python recipes/studies/dialogue/dialogues.py rest TRANSLATION OUT/test.third.fr > REST
python recipes/studies/dialogue/dialogues.py asked OUT/test TRANSLATION.formal TRANSLATION.informal \\
    --languages en fr > CHOSEN
python recipes/studies/dialogue/dialogues.py kept OUT/test --languages en fr
python recipes/studies/dialogue/dialogues.py questions CTXPRO/formality.en-fr.dev.jsonl ... --train OUT.jsonl \\
    --held OUT.tsv
python recipes/studies/dialogue/dialogues.py table SCORES.json ... > TABLE.md
python recipes/studies/dialogue/dialogues.py written DIABLA-DATASET/DiaBLa-corpus/dialogues OUT/shipped
python recipes/studies/dialogue/dialogues.py written DIABLA-DATASET/DiaBLa-corpus/dialogues --translation OURS.fr \\
    > WRITTEN.fr
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any
from zlib import crc32

from docnmt.core.formality import AddressRule, second_person
from docnmt.runtime.system import UserError, write_text

Documents = list[list[str]]


def documents(path: Path) -> Documents:
    """The documents of a text, a sentence a line, empty lines between them."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [list(group) for blank, group in groupby(lines, lambda line: not line.strip()) if not blank]


def side(prefix: str, language: str) -> Path:
    """`PREFIX.LANGUAGE`."""
    return Path(f"{prefix}.{language}")


def pair(prefix: str, languages: Sequence[str]) -> tuple[Documents, Documents]:
    """Both sides of a text."""
    source, target = (documents(side(prefix, language)) for language in languages)
    if [len(document) for document in source] != [len(document) for document in target]:
        raise UserError(f"{prefix}: its sides have other documents; expected one line for each line")
    return source, target


def write(path: Path, corpus: Documents) -> None:
    """A text; lines may be empty."""
    write_text(path, "\n\n".join("\n".join(document) for document in corpus) + "\n")


def text(args: argparse.Namespace) -> None:
    """Some of a text's documents, without the levels that the tests do not have."""
    source, target = pair(args.prefix, args.languages)
    chosen = [n for n, document in enumerate(source) if args.least <= len(document) <= (args.most or len(document))]
    sides = dict(zip(args.languages, (source, target), strict=True))
    if args.levels:
        rows = filter(str.strip, lines(f"{args.prefix}.levels.tsv"))
        sides["levels.tsv"] = [[next(rows) for _ in document] for document in source]
    for name, corpus in sides.items():
        write(side(args.out, name), [corpus[n] for n in chosen][:: args.every])


def given(args: argparse.Namespace) -> None:
    """PREFIX.third.fr: the first third of each document; PREFIX.foreign.en, PREFIX.foreign.third.fr: that of the next
    document in its place; PREFIX.rest.en, .fr: what is scored then."""
    (source, target), (from_, to) = pair(args.prefix, args.languages), args.languages
    third = [len(document) // 3 for document in source]
    following = [*range(1, len(source)), 0][: len(source)]
    blank = [[""] * (len(document) - n) for document, n in zip(source, third, strict=True)]
    rest = [[document[n:] for document, n in zip(corpus, third, strict=True)] for corpus in (source, target)]

    def with_first(corpus: Documents, order: Sequence[int], behind: Documents) -> Documents:
        return [corpus[n][: third[n]] + after for n, after in zip(order, behind, strict=True)]

    write(side(args.prefix, f"third.{to}"), with_first(target, range(len(source)), blank))
    write(side(args.prefix, f"foreign.{from_}"), with_first(source, following, rest[0]))
    write(side(args.prefix, f"foreign.third.{to}"), with_first(target, following, blank))
    for language, corpus in zip(args.languages, rest, strict=True):
        write(side(args.prefix, f"rest.{language}"), corpus)


def paragraphs(args: argparse.Namespace) -> None:
    """What `given` is made of and makes, with `<p>` before each line: each is a paragraph."""
    from_, to = args.languages
    for source, third in ((from_, f"third.{to}"), (f"foreign.{from_}", f"foreign.third.{to}")):
        for name in (source, third):
            pairs = zip(lines(f"{args.prefix}.{source}"), lines(f"{args.prefix}.{name}"), strict=True)
            marked = ("<p>\n" * bool(there.strip()) + f"{one}\n" for there, one in pairs)
            write_text(side(args.out, name), "".join(marked))


def questions(args: argparse.Namespace) -> None:
    """Questions of ctxpro: as training text, each a document of its last sentences; a tenth of the films as TSV.

    A sentence of a context has a translation where it is itself a question.
    """
    rows = [json.loads(line) for path in args.files for line in lines(path)]
    held = [crc32(row["document"].encode()) % 10 == 0 for row in rows]
    cut = [{side: row[side][-args.sentences :] for side in ("source", "target")} for row in rows]
    if args.train:
        kept = (json.dumps(row, ensure_ascii=False) for row, out in zip(cut, held, strict=True) if not out)
        write_text(Path(args.train), "".join(f"{row}\n" for row in kept))
    asked = [row for row, out in zip(rows, held, strict=True) if out or not args.train]
    said = {(row["document"], row["segment"]): row["target"][-1] for row in rows}
    table = [["expected", "src_context", "src", "tgt_context", "tgt", "rule"]]
    for row in asked:
        before = range(row["segment"] - len(row["source"]) + 1, row["segment"])
        known = "<SEP>".join(said.get((row["document"], number), "") for number in before)
        known *= bool(known.replace("<SEP>", ""))
        if known or not args.known:
            parts = ("<SEP>".join(row["source"][:-1]), row["source"][-1], known, row["target"][-1])
            table.append([" ".join(text.split()) for text in (row["expected"], *parts, row["rule"])])
    write_text(Path(args.held), "".join("\t".join(row) + "\n" for row in table))


def lines(path: str) -> list[str]:
    """The lines of a text."""
    return Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")


def beside(path: str, other: str) -> list[tuple[str, str]]:
    """The lines of two texts, side by side."""
    here, there = lines(path), lines(other)
    if len(here) != len(there):
        raise UserError(f"{path}: {len(here):,} lines, and {other} has {len(there):,}; expected one for each line")
    return list(zip(here, there, strict=True))


def rest(args: argparse.Namespace) -> None:
    """The lines of a translation that were not given."""
    sys.stdout.writelines(f"{line}\n" for line, there in beside(args.translation, args.given) if not there.strip())


def asked(args: argparse.Namespace) -> None:
    """Of each document the translation in the form that most lines of address of its reference have."""
    source, reference = pair(args.prefix, args.languages)
    rule, speaks = AddressRule(args.languages[1]), second_person(args.languages[0])
    asked_of = f"{args.prefix}.{args.languages[0]}"  # its empty lines: those of a translation may be sentences
    ways = {
        form: iter([line for line, there in beside(getattr(args, form), asked_of) if there.strip()])
        for form in ("formal", "informal")
    }
    chosen = []
    for there, said in zip(source, reference, strict=True):
        forms = Counter(rule.form(line) for one, line in zip(there, said, strict=True) if speaks(one))
        translations = {form: list(islice(way, len(there))) for form, way in ways.items()}
        chosen.append(translations["formal" if forms["formal"] > forms["informal"] else "informal"])
    print("\n\n".join("\n".join(document) for document in chosen))


def kept(args: argparse.Namespace) -> None:
    """How often the reference goes on in the last form of the given part: what a model that only keeps it can reach."""
    source, reference = pair(args.prefix, args.languages)
    shown = iter(lines(f"{args.prefix}.third.{args.languages[1]}"))
    rule, speaks = AddressRule(args.languages[1]), second_person(args.languages[0])
    same = compared = 0
    for number, (there, said) in enumerate(zip(source, reference, strict=True)):
        if number:
            next(shown)  # the empty line between documents
        last = None
        for one, line in zip(there, said, strict=True):
            given_too, form = bool(next(shown).strip()), rule.form(line) if speaks(one) else None
            if form is not None and given_too:
                last = form
            elif form is not None:
                same, compared = same + (form == last), compared + 1
    print(f"{100 * same / max(compared, 1):.1f} % of {compared:,} lines")


def table(args: argparse.Namespace) -> None:
    """A row for each file of docnmt-score --address --paired --json, called by its name."""
    print("| | agreement | consistency | s-BLEU | difference | chrF | difference |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for path in map(Path, args.scores):
        scores: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if "address" not in scores:
            raise UserError(f"{path}: no forms of address; expected what docnmt-score --address --json prints")
        compared = {metric["metric"]: metric for metric in scores.get("paired", {}).get("metrics", [])}
        cells = [" ".join(path.with_suffix("").parts[-3:])]
        for name in ("agreement", "consistency"):
            share = scores["address"][name]
            cells.append("–" if share is None else f"{share:.1f}")
        for name in ("s-BLEU", "chrF"):
            cells += [f"{scores[name]:.2f}", _difference(compared.get(name))]
        print(f"| {' | '.join(cells)} |")


def _difference(compared: dict[str, Any] | None) -> str:
    if compared is None:
        return ""
    low, high = compared["low"], compared["high"]
    return f"{compared['difference']:+.2f} ({low:+.2f} to {high:+.2f}), p {compared['p_value']:.3f}"


def written(args: argparse.Namespace) -> None:
    """DiaBLa's own protocol: only what speakers wrote in English. OUT.SYSTEM.en, .fr and .translated.fr for each of the
    two systems of 2018 whose translations the corpus has; or these lines of a translation of the whole corpus."""
    texts: dict[str, dict[str, Documents]] = {}
    lines_of = iter(lines(args.translation)) if args.translation else iter(())
    for number, path in enumerate(sorted(Path(args.dialogues).glob("*.json"))):
        dialogue = json.loads(path.read_text(encoding="utf-8"))
        utterances = [said for _, said in sorted(dialogue["utterances"].items(), key=lambda item: int(item[0]))]
        if args.translation:
            between = [next(lines_of)] if number else []  # the empty line between documents
            whole = list(islice(lines_of, len(utterances)))
            if any(map(str.strip, between)) or len(whole) < len(utterances):
                raise UserError(
                    f"{args.translation}: expected {len(utterances)} lines for {path.name}, then an empty one"
                )
            kept_lines = [line for line, said in zip(whole, utterances, strict=True) if said["language"] == "english"]
            sys.stdout.write("\n" * bool(number) + "".join(f"{line}\n" for line in kept_lines))
            continue
        system = texts.setdefault(dialogue["translation_model"], {})
        english = [said for said in utterances if said["language"] == "english"]
        sources = [said["normalised_version"] or said["original_text"] for said in english]
        references = [said["reference_translation"] for said in english]
        translations = [said["postprocessed_text"] for said in english]
        for name, spoken in zip(("en", "fr", "translated.fr"), (sources, references, translations), strict=True):
            system.setdefault(name, []).append([" ".join(line.split()) for line in spoken])
    for name, sides in texts.items():
        for side_name, chosen in sides.items():
            write(side(f"{args.out}.{name}", side_name), chosen)


def positive(word: str) -> int:
    """A whole number of at least 1, from the command line."""
    if (number := int(word)) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {word}")
    return number


def main(words: Sequence[str] | None = None) -> int:
    """One of the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    work = {run.__name__: run for run in (text, given, paragraphs, rest, asked, kept, questions, table, written)}
    step = {name: steps.add_parser(name, help=run.__doc__) for name, run in work.items()}
    for name in ("text", "given", "paragraphs", "asked", "kept"):
        step[name].add_argument("prefix")
        step[name].add_argument("--languages", nargs=2, required=True, metavar="LANG")
    step["written"].add_argument("dialogues", metavar="DIALOGUES", help="the corpus's folder of JSON files")
    step["written"].add_argument("out", nargs="?", default="shipped")
    step["written"].add_argument("--translation", metavar="FILE", help="print the lines of this text that count")
    step["text"].add_argument("out")
    step["text"].add_argument("--levels", action="store_true", help="with the levels")
    step["paragraphs"].add_argument("out")
    step["text"].add_argument("--every", type=positive, default=1, metavar="N", help="only every Nth document")
    step["text"].add_argument("--least", type=int, default=1, metavar="N", help="only documents of at least N lines")
    step["text"].add_argument("--most", type=int, metavar="N", help="only documents of at most N lines")
    step["rest"].add_argument("translation")
    step["rest"].add_argument("given")
    step["asked"].add_argument("formal")
    step["asked"].add_argument("informal")
    step["questions"].add_argument("files", nargs="+", metavar="FILE.jsonl")
    step["questions"].add_argument("--train", metavar="OUT.jsonl", help="training text, of nine tenths [all are asked]")
    step["questions"].add_argument("--held", required=True, metavar="OUT.tsv", help="for docnmt-score --generative")
    step["questions"].add_argument("--known", action="store_true", help="only those whose context has a translation")
    step["questions"].add_argument("--sentences", type=int, default=6, metavar="N", help="the last N of each [6]")
    step["table"].add_argument("scores", nargs="+")
    args = parser.parse_args(words)
    try:
        work[args.step](args)
    except (UserError, OSError) as error:
        print(f"dialogues.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
