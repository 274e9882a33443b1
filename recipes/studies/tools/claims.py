"""The numbers of README and docs, read or computed from what the studies kept.

    python recipes/studies/tools/claims.py                  # docs/results/index.md: each claim with its number
    python recipes/studies/tools/claims.py --table models   # models, forms or memory: on several pages
    python recipes/studies/tools/claims.py --numbers        # those of sentences, by name
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import cache
from itertools import product
from statistics import fmean
from typing import Any, NamedTuple

from kept_tables import printed, tables
from measured import kept, over_seeds, read_json, read_text, rows, score_of

HERE = "recipes/studies"  # what prints the tables of which a claim is a cell:
FUSION = f"python {HERE}/fusion_matters/summary.py {HERE}/fusion_matters/fusion.jsonl.xz"
WIDTH = FUSION.replace("summary.py", f"report.py {HERE}/fusion_matters/ag_news_width.yaml --runs")
COURTS = (512, 2048, 4096)  # words of an argument that are read
SCOTUS = FUSION.replace("summary.py", f"report.py {HERE}/fusion_matters/scotus_lengths.yaml --runs")
TRANSLATION = "python {0}/fusion_translation.py {0}/fusion-translation.json".format(f"{HERE}/fusion_translation")
LENGTHS = f"python {HERE}/scaleformer/lengths.py {HERE}/scaleformer/scaleformer.json"
FRESH_LENGTHS = f"python {HERE}/scaleformer/lengths.py {HERE}/scaleformer/fresh.json --minus r-16"
RIVALS = "rivals.jsonl/rivals/comparison.json"
PUBLISHED = "published.jsonl/published/comparison.json"
HALF_RATE = "published.jsonl/published-rate/comparison.json"
SAME_NAME = "same-name.jsonl/same-name/comparison.json"
SAME_NAME_OTHERS = "same-name.jsonl/same-name-others/comparison.json"
TREE = "tree.jsonl/tree/comparison.json"
FRESH_SEEDS = "default-fusion.jsonl/fresh/comparison.json"
LEARNING = f"python {HERE}/discourse/learning_time.py {HERE}/discourse/learning.json --most 3000"
INFERLITE = f"python {HERE}/inferlite/differences.py --results {HERE}/inferlite/inferlite.jsonl.xz/stopped/results"
ORDINARY = f"python {HERE}/ordinary/tables.py {HERE}/ordinary/ordinary.jsonl"
DOCMIX = f"python {HERE}/tools/results_table.py {HERE}/docmix/docmix.jsonl --systems sentence concat document"


class Claim(NamedTuple):
    """A row: what is claimed, its number, over how many seeds, and of which study."""

    claim: str
    number: str
    seeds: str
    study: str


#: Of each study its page in docs/results, the command that measures (in recipes/studies), and its kept file.
STUDIES = {
    "seen": ("translation", "manual/seen.py", "seen.jsonl"),
    "memory": ("translation", "manual/memory_alone.py", "memory.jsonl"),
    "real": ("translation", "manual/run.sh", "real.jsonl"),
    "manual": ("translation", "manual/parts.py", "manual.jsonl"),
    "discourse": ("sentences", "discourse/run.sh", "discourse.jsonl"),
    "retrieval": ("sentences", "discourse/retrieval.py", "retrieval.jsonl"),
    "rivals": ("sentences", "discourse/rivals.yaml", "rivals.jsonl"),
    "published": ("sentences", "discourse/published.yaml", "published.jsonl"),
    "published-rate": ("sentences", "discourse/published_rate.yaml", "published.jsonl"),
    "same-name": ("sentences", "discourse/same_name.yaml", "same-name.jsonl"),
    "same-name-others": ("sentences", "discourse/same_name_others.yaml", "same-name.jsonl"),
    "tree": ("sentences", "discourse/tree.yaml", "tree.jsonl"),
    "learning": ("sentences", "discourse/learning.sh", "learning.json"),
    "ablation": ("sentences", "ablation/run.sh", "ablation.jsonl"),
    "boundaries": ("sentences", "discourse/boundaries.sh", "boundaries.jsonl"),
    "docmix": ("translation", "docmix/run.sh", "docmix.jsonl"),
    "dialogue": ("dialogue", "dialogue/run.sh", "dialogue.jsonl"),
    "given": ("dialogue", "dialogue/run.sh", "given.jsonl"),
    "fusion": ("fusion", "fusion_matters/run.sh", "fusion.jsonl.xz"),
    "width": ("fusion", "fusion_matters/ag_news_width.yaml", "fusion.jsonl.xz"),
    "scotus": ("fusion", "fusion_matters/scotus_lengths.yaml", "fusion.jsonl.xz"),
    "translation": ("fusion", "fusion_translation/run.sh", "fusion-translation.json"),
    "default": ("fusion", "default_fusion/run.sh", "default-fusion.jsonl"),
    "fresh-seeds": ("fusion", "default_fusion/fresh.yaml", "default-fusion.jsonl"),
    "news": ("fusion", "fusion_translation/news.yaml", "ordinary.jsonl"),
    "lengths": ("sentences", "scaleformer/run.sh", "scaleformer.json"),
    "fresh-lengths": ("sentences", "scaleformer/run.sh", "fresh.json"),
    "inferlite": ("vectors", "inferlite/run.sh", "inferlite.jsonl.xz"),
    "card": ("speed", "gpu/run.sh", "processes.jsonl"),
    "base": ("translation", "gpu/run.sh", "gpu.jsonl"),
    "ordinary": ("translation", "ordinary/oracle.yaml", "ordinary.jsonl"),
    "composition": ("translation", "ordinary/composition.yaml", "ordinary.jsonl"),
    "batches": ("translation", "ordinary/batches.yaml", "ordinary.jsonl"),
    "language-model": ("translation", "ordinary/rerank.sh", "ordinary.jsonl"),
    "choice": ("translation", "ordinary/choice.yaml", "ordinary.jsonl"),
    "docrepair": ("translation", "ordinary/docrepair.sh", "ordinary.jsonl"),
    "docmix-fusion": ("fusion", "fusion_translation/docmix.yaml", "ordinary.jsonl"),
}


@cache
def read(path: str) -> Any:  # whatever the study wrote there
    """A JSON file inside a kept file."""
    file, _, inside = path.partition("/")
    return read_json(kept(file) / inside)


def rival(system: str, study: str = RIVALS, test: str = "10-16") -> str:
    """The right answers of a system of a comparison, in percent: least to most of its seeds."""
    accuracy = read(study)["systems"][system]["contrastive"][test]["accuracy"]
    return f"{accuracy['least']:.1f} to {accuracy['most']:.1f}"


def cell(command: str, table: int, row: str, column: int) -> str:
    """A cell of a table that a command prints, by the beginning of its row and the number of its column."""
    line = next(line for line in tables(printed(command))[table - 1].splitlines() if line.startswith(f"| {row}"))
    return line.split("|")[column + 1].strip().replace("-", "−")


def copied(table: str, row: str, column: int) -> str:
    """A cell of a table that was copied from the output of a run."""
    lines: list[list[str]] = read(f"real.jsonl/{table}.json")["rows"]
    return next(line[column] for line in lines if line[0].startswith(row)).replace("**", "")


def gained(system: str, other: str, corpus: str = "manual") -> str:
    """What a system gains on unseen lines over another one, with its interval."""
    difference, low, high, _ = read(f"manual.jsonl/{corpus}/unseen lines/{system}.json")[f"over {other}"]["s-BLEU"]
    return f"{difference:+.2f} ({low:+.2f} to {high:+.2f})".replace("-", "−")


def right(*systems: str, questions: str = "true-context", study: str = "discourse") -> str:
    """Right answers in percent: of one system, or the least and the most of several."""
    values = [read(f"{study}.jsonl/{name}.json")["contrastive"][questions]["accuracy"] for name in systems]
    return " to ".join(dict.fromkeys(f"{value:.1f}" for value in (min(values), max(values))))


def real() -> Iterator[Claim]:
    """Real text: what repeats, what a memory does, what the pointer adds."""
    for name, corpus in (("manual", "PHP manual"), ("help", "LibreOffice's help")):
        row = read(f"seen.jsonl/{name}/test.json")
        lines, below = f"{100 * row['lines seen'] / row['lines']:.0f} %", row["documents below a tenth seen"]
        number = f"{lines}; {below} of {row['documents']} documents below a tenth"
        yield Claim(f"{corpus}: test lines that are in training", number, "–", "seen")
    for name, corpus in (("manual", "PHP manual"), ("help", "LibreOffice's help")):
        scores = (read(f"memory.jsonl/{name}/{part}.json")["s-BLEU"] for part in ("all lines", "unseen lines"))
        number = "all {:.1f}; unseen {:.1f}".format(*scores)
        yield Claim(f"{corpus}: a memory without a model, s-BLEU", number, "–", "memory")
    for corpus in ("manual", "help", "handbooks"):
        for systems, name in ((("copy-1", "copy-2"), "pointer"), (("knn",), "kNN-MT")):
            number = "; ".join(gained(system, "the sentence model", corpus) for system in systems)
            yield Claim(f"{corpus}, unseen lines: {name} − sentence model, s-BLEU", number, str(len(systems)), "manual")
    number = "; ".join(gained(f"copy-{seed}", "the memory") for seed in (1, 2))
    yield Claim("manual, unseen lines: pointer − translation memory, s-BLEU", number, "2", "manual")
    whole = (read(f"manual.jsonl/help/all lines/{name}.json")["s-BLEU"] for name in ("fuzzy", "copy-1", "copy-2"))
    number = "; ".join(f"{score:.2f}" for score in whole)
    yield Claim("help, all pages: fuzzy memory over the sentence model; pointer, s-BLEU", number, "2", "manual")
    yield Claim("manual, half of each page given: pointer", copied("desk-manual", "50 %", 3), "2", "real")


def discourse() -> Iterator[Claim]:
    """Documents in which an earlier sentence decides; chance is 41.7 %."""
    seeds = ("hier_cond", "hier_cond-2", "hier_cond-3")
    name = "generated documents, `hier_cond_transformer` (eq. 7, no tree): right, %; chance 41.7"
    yield Claim(name, right(*seeds), "3", "discourse")
    number = right(*seeds, questions="2048-sentences")
    yield Claim("… in documents of 2,048 sentences (90 questions)", number, "3", "discourse")
    number = right(*seeds, questions="foreign-context")
    yield Claim("… with another document's context", number, "3", "discourse")
    number = f"{read('retrieval.jsonl/similar/contrastive.json')['right']:.1f}"
    yield Claim("look-up of the most similar sentence, nothing trained: right, %", number, "–", "retrieval")
    number = "{right:.1f}; {found:.0f} found".format(**read("retrieval.jsonl/name/contrastive.json"))
    yield Claim("look-up of the nearest sentence with the same name: right, %", number, "–", "retrieval")
    number = right("tree", questions="512-sentences")
    yield Claim("a tree of means (`--merge mean`), 512 sentences: right, %", number, "1", "discourse")
    rates = [row for row in read("discourse-tables.jsonl/retuned.json")["rows"] if row[0] == "`g_transformer`"]
    number = right("doc", "doc-sinusoidal", "scaleformer", "scaleformer-relative")
    number += f"; {' to '.join(f(row[3] for row in rates) for f in (min, max))}"
    name = "attention to all words, five models at one rate; G-Transformer at four: right, %"
    yield Claim(name, number, "1", "discourse")
    rivals = (
        ("doc", RIVALS, "rivals", "10-16", "equal start, all words of the document"),
        ("doc-half-rate", RIVALS, "rivals", "10-16", "… at half the learning rate"),
        ("replace", RIVALS, "rivals", "10-16", "context heads in place of others"),
        ("g_transformer", PUBLISHED, "published", "10-16", "G-Transformer from a sentence model"),
        ("g_transformer", HALF_RATE, "published-rate", "10-16", "… at half the learning rate"),
        ("han", PUBLISHED, "published", "10-16", "HAN from a sentence model, 12 sentences back"),
        ("han", HALF_RATE, "published-rate", "10-16", "… at half the learning rate"),
        ("replace", SAME_NAME, "same-name", "128, other name", "context heads, 128 sentences about another person"),
        ("replace", SAME_NAME, "same-name", "128, same name", "… about the question's person"),
        *(
            (system, SAME_NAME_OTHERS, "same-name-others", f"128, {name} name", f"{words}, 128 sentences about {whom}")
            for system, name, words, whom in (
                ("flat", "other", "eq. 7 (no tree), added positions", "another person"),
                ("flat", "same", "eq. 7 (no tree), added positions", "the question's person"),
                ("tree", "same", "the tree by the letter", "the question's person"),
                ("doc", "same", "all words of the document", "the question's person"),
            )
        ),
        ("tree", TREE, "tree", "10-16", "the paper's tree by the letter (`--merge plain_source2token`)"),
        ("tree", TREE, "tree", "512", "… in documents of 512 sentences"),
    )
    for name, study, key, test, words in rivals:
        foreign = read(study)["systems"][name]["contrastive"][test]["foreign"]["difference"]
        yield Claim(f"{words}: right, %; true − foreign", f"{rival(name, study, test)}; {foreign:+.1f}", "3", key)
    starts = [n for name, seeds in read("learning.json").items() if name.startswith("random") and name.endswith("flat")
              for n in seeds.values()]  # fmt: skip
    number = f"{sum(n is not None for n in starts)} of {len(starts)}"
    yield Claim(
        "random start, flat conditional attention: trainings that learn in 3,000 updates", number, "3", "learning"
    )
    number = "{} ({})".format(*(cell(LEARNING, 2, "random : equal", n) for n in (1, 2)))
    yield Claim("updates that a random start needs : an equal start", number, "3", "learning")
    number = "; ".join(right(name, study="ablation") for name in ("t-1", "t-2"))
    yield Claim("each word reads one sentence; two: right, %", number, "1", "ablation")
    number = "; ".join(right("right", questions=f"{how}-0.1", study="boundaries") for how in ("move", "merge"))
    yield Claim("a tenth of the sentence boundaries moved; merged: right, %", number, "1", "boundaries")


def dialogue() -> Iterator[Claim]:
    """Forms of address in dialogues of which the first third is given."""
    steady, sentence = (f"{system}, longest start" for system in ("steady", "sentence"))
    ours = [row["s-BLEU"] for row in dialogues("diabla", sentence, "none")]
    number = f"{'; '.join(f'{score:.1f}' for score in rnns())}; ours {min(ours):.1f} to {max(ours):.1f}"
    name = "DiaBLa: RNNs of 2018 on the lines written in English; our sentence model on all lines, s-BLEU"
    yield Claim(name, number, "3", "dialogue")
    ways = ((steady, "third"), (sentence, "third"), (steady, "foreign"))
    shares = ([row["agreement"] for row in dialogues("diabla", *way)] for way in ways)
    number = "; ".join(f"{min(values):.1f} to {max(values):.1f}" for values in shares)
    name = "DiaBLa, first third given: *tu* or *vous* right; sentence model; another dialogue's third, %"
    yield Claim(name, number, "3", "dialogue")
    number = over_seeds(true_minus_foreign("diabla", steady, "agreement"), 1)
    yield Claim("… true − foreign third, points", number, "3", "dialogue")
    told = "sentence model with a tag of the last given form and ctxpro's questions"
    for where, system, score, name in (
        ("diabla", steady, "s-BLEU", "… document − sentence model, s-BLEU (each p ≤ .005); true − foreign third"),
        ("diabla", "forms, longest start", "s-BLEU", f"… {told} − sentence model, s-BLEU; true − foreign third"),
        ("games", steady, "s-BLEU",
         "game files, first third given: document − sentence model, s-BLEU (each p > .05); true − foreign third"),
        ("games", steady, "agreement",
         "game files: *tu* or *vous*, true third: document − sentence model; true − foreign third, points"),
        ("xdailydialog", "steady", "agreement",
         "XDailyDialog: *du* or *Sie*, true third: document − sentence model; true − foreign third, points"),
    ):  # fmt: skip
        gains = [row["against_sentence"][score][0] for row in dialogues(where, system, "third")]
        digits = 1 if score == "agreement" else 2
        worth = over_seeds(true_minus_foreign(where, system, score), digits)
        yield Claim(name, f"{seeds_range(gains, digits)}; {worth}", "3", "dialogue")
    scores = [read(f"given.jsonl/diabla/{system}.seeds/third.json")["foreign"] for system in ("steady", "concat4")]
    seeds = str(len(scores[0]["metrics"][0]["seeds"]["system"]["scores"]))
    name = "DiaBLa, short start, over dialogues: document model; four joined sentences: true − foreign third, s-BLEU"
    yield Claim(name, "; ".join(map(difference, scores)), seeds, "given")


def others() -> Iterator[Claim]:
    """Documents of docmix, longer texts, sentence vectors."""
    rows = [line for line in tables(printed(DOCMIX))[3].splitlines() if "| document | sentence |" in line]
    scores = {title: [line.split(" | ")[column].split(" ")[0] for line in rows]
              for title, column in (("s-BLEU", 3), ("chrF", 5))}  # fmt: skip
    number = "; ".join(
        f"{title} {min(values, key=float)} to {max(values, key=float)}".replace(" -", " −")
        for title, values in scores.items()
    )
    name = f"real corpora, {len(rows)} sets, an hour: document − sentence model (which had a better start)"
    yield Claim(name, number, "1", "docmix")
    for row, name in (
        ("r-4 ", "relative positions, horizon 4 (the default)"), ("r-16 ", "relative positions, horizon 16"),
        ("absolute", "absolute positions"),
    ):  # fmt: skip
        number = "; ".join(cell(LENGTHS, 1, row, n).replace("(", "(seeds: ") for n in (3, 4))
        yield Claim(f"generated documents, {name}: right at twice and four times the length, %", number, "3", "lengths")
    number = "; ".join(cell(FRESH_LENGTHS, 2, "r-4: right", n) for n in (3, 4))
    name = "linear attention, fresh texts and seeds: horizon 4 − 16, right at twice and four times the length, points"
    yield Claim(name, number, "5", "fresh-lengths")
    for table, name in ((2, "similarity"), (1, "classification")):
        number = "{} ({})".format(*(cell(INFERLITE, table, "glove,1 − untrained,1", n) for n in (2, 3)))
        yield Claim(f"sentence vectors, SentEval (fast): trained − untrained, {name}", number, "3", "inferlite")


def card() -> Iterator[Claim]:
    """Training on a card."""
    steps: list[list[str]] = read("processes.jsonl/gpu-step.json")["rows"]
    number = "; ".join(next(row[2] for row in steps if row[0].startswith(way)) for way in ("… and tiles", "Hugging"))
    yield Claim(
        "training a base model on an H200, subwords a second: docnmt; Hugging Face's Marian, compiled",
        number,
        "–",
        "card",
    )

    name = "docmix, base size: nats with the document; without; with a foreign one; sentence model"
    yield Claim(name, "; ".join(f"{number:.4f}" for number in nats()), "1", "base")
    seeds = [cell(ORDINARY, 1, "what the tag saves", column) for column in (1, 2, 3)]
    yield Claim("docmix, `_tiny`: nats that a tag of the domain saves", "; ".join(seeds), "3", "ordinary")
    for text, row in (("plain text", "document "), ("composed text", "document-composed")):
        runs, _, behind, worth = (cell(ORDINARY, 2, row, column) for column in range(1, 5))
        name = f"docmix, `_tiny`, {text}: document − sentence model; foreign − true document, nats"
        yield Claim(name, f"{behind}; {worth}", runs, "composition")
    for row, text in (
        ("sentence-documents", "sentence model, batches of whole documents − of single sentences"),
        ("document ", "document model, batches of whole documents − sentence model"),
        ("document-pieces", "document model, batches of pieces − sentence model"),
    ):
        yield Claim(f"docmix, `_tiny`: {text}, nats", cell(ORDINARY, 3, row, 3), "3", "batches")
    for row, name in (("document ", "document"), ("document-choice", "document, the choice counts")):
        number = "; ".join(cell(ORDINARY, 8, row, column) for column in (3, 4))
        text = "docmix, `_tiny`, concatenated positions: {} − sentence model, both on pieces; foreign − true, nats"
        yield Claim(text.format(name), number, "3", "choice")
    name = "language model of docmix's German: with its document − of sentences; foreign − true, nats"
    number = "; ".join(cell(ORDINARY, 4, "document ", column) for column in (3, 4))
    yield Claim(name, number, "3", "language-model")
    name = "docmix, concatenated positions: document − sentence model; the same on pieces − sentence model, s-BLEU"
    yield Claim(name, "; ".join(map(chosen, ("document", "sentence-pieces"))), "3", "choice")
    name = "… document − sentence model, both on pieces; document, true − foreign, s-BLEU"
    yield Claim(name, f"{difference(document_rival())}; {chosen('document', kind='foreign')}", "3", "choice")
    name = "docmix, ten best, a language model of documents chooses: − best; true − foreign, s-BLEU"
    yield Claim(name, "; ".join(cell(ORDINARY, 5, "tests", column) for column in (3, 6)), "3", "language-model")
    name = "docmix, DocRepair: sentence, document, four sentences − what they mend, s-BLEU"
    yield Claim(name, "; ".join(map(repaired, ("sentence", "document", "group"))), "3", "docrepair")
    name = "… document, four sentences: true − foreign, s-BLEU"
    number = "; ".join(chosen(system, "docrepair", kind="foreign") for system in ("document", "group"))
    yield Claim(name, number, "3", "docrepair")


def document_rival() -> Any:
    """The document model of the study of choices beside the sentence model on the same pieces."""
    return read("ordinary.jsonl/choice/document-pieces.json")["paired"]


def on_unseen(name: str) -> str:
    """A difference of the study of choices on the lines of the tests that are not in training."""
    return difference(read(f"ordinary.jsonl/choice/parts/unseen/{name}.json")["paired"])


def nats() -> tuple[float, ...]:
    """Of the base models of docmix: with the document, without, with a foreign one; the sentence model."""
    events = {name: [json.loads(line) for line in read_text(kept("gpu.jsonl") / f"{name}.jsonl").splitlines()]
              for name in ("document", "sentence")}  # fmt: skip
    last, alone = ([event for event in events[name] if event["event"] == "valid"][-1] for name in events)
    return last["nll"], last["nll_none"], last["nll_foreign"], alone["nll"]


def forth() -> float:
    """Nats of dev of the model that translates before DocRepair mends."""
    lines = read_text(kept("ordinary.jsonl") / "repair/forth/train.jsonl").splitlines()
    nll: float = [event for event in map(json.loads, lines) if event["event"] == "valid"][-1]["nll"]
    return nll


def repaired(system: str) -> str:
    """What a system of DocRepair gains over what it mends, s-BLEU, with its interval."""
    return difference(read(f"ordinary.jsonl/repair/tests/{system}.json")["paired"])


def compared(system: str, study: str = "choice", kind: str = "paired") -> Any:
    """A system on docmix: `paired` with the first one of its study, or `foreign`, with itself in other documents."""
    return read(f"ordinary.jsonl/{study}/comparison.json")["systems"][system]["tests"]["docmix"][kind]


def chosen(system: str, study: str = "choice", metric: str = "s-BLEU", kind: str = "paired") -> str:
    """What a system gains on docmix over the first one of its study, with its interval."""
    return difference(compared(system, study, kind), metric)


def by_seed(scores: dict[str, Any], metric: str = "s-BLEU") -> str:
    """The differences of docnmt-score's seeds."""
    seeds = score_of(scores, metric)["seeds"]
    pairs = zip(seeds["system"]["scores"], seeds["other"]["scores"], strict=True)
    *first, last = (f"{system - other:+.2f}".replace("-", "−") for system, other in pairs)
    return f"{', '.join(first)} and {last}"


def difference(scores: dict[str, Any], metric: str = "s-BLEU") -> str:
    """A difference of docnmt-score, with its interval."""
    return "{difference:+.2f} ({low:+.2f} to {high:+.2f})".format(**score_of(scores, metric)).replace("-", "−")


def over_add(report: str, cells: str, operator: str) -> str:
    """What an operator gains over `add` by a study's report, points, with its interval over seeds and texts."""
    number = " ".join(cell(report, 2, f"{cells}.{operator}", column) for column in (2, 4))
    return number.translate(str.maketrans({"[": "(", "]": ")", ",": " to"}))


def fusion() -> Iterator[Claim]:
    """How positions join embeddings; differences to `add` in points."""
    yield Claim("AG News: `gate_scalar` − `add`, points", cell(FUSION, 1, "`gate_scalar`", 2), "10", "fusion")
    yield Claim("IMDB: `gate_scalar` − `add`, points", cell(FUSION, 1, "`gate_scalar`", 4), "5", "fusion")
    yield Claim("AG News: no position − `add`, points", cell(FUSION, 1, "no position (", 2), "10", "fusion")
    number = cell(FUSION, 2, "`gate_vector`", 2)
    yield Claim("AG News, the notebooks' setting: `gate_vector` − `add`, points", number, "10", "fusion")
    number = cell(FUSION, 2, "control: `gate_content`", 2)
    yield Claim("… a gate that sees no position − `add`, points", number, "10", "fusion")
    for operator in ("`concat`", "`gate_scalar`"):
        number = cell(FUSION, 2, operator, 8)
        yield Claim(
            f"AG News, four layers of width 256, the notebooks' rate: {operator} − `add`, points", number, "1", "fusion"
        )
    number = "; ".join(over_add(WIDTH, "width1024", operator) for operator in ("concat", "gate_scalar"))
    name = "AG News, the notebooks' size (feed-forward width 1,024): `concat`, `gate_scalar` − `add`, points"
    yield Claim(name, number, "3", "width")
    for words in COURTS:
        name = f"scotus_oral, first {words:,} words, linear attention: `concat`, `gate_scalar` − `add`, points"
        number = "; ".join(over_add(SCOTUS, f"words{words}", operator) for operator in ("concat", "gate_scalar"))
        yield Claim(name, number, "3", "scotus")
    number = cell(FUSION, 3, "which of two", 1)
    name = "which of two marks is first, texts up to 64 times as long as trained on: relative positions − `add`, points"
    yield Claim(name, number, "3", "fusion")
    rows = read("default-fusion.jsonl/seeds.json")["rows"]
    for operator in ("add", "concat", "concat_addition"):
        right = [float(share) for row in rows if row[0] == operator for share in row[3:7]]
        foreign = [float(row[7]) for row in rows if row[0] == operator]
        number = f"{min(right)} to {max(right)}; {min(foreign)} to {max(foreign)}"
        name = f"generated documents of all lengths, default model with `{operator}`: right; with another document, %"
        yield Claim(name, number, str(len(foreign)), "default")
    for system in ("add", "concat-addition"):
        number = "; ".join(rival(system, FRESH_SEEDS, f"fresh, {length}") for length in ("10-16", "128"))
        name = f"… fresh seeds and questions, `{system.replace('-', '_')}`: right in 10 to 16 and in 128 sentences, %"
        yield Claim(name, number, "3", "fresh-seeds")
    number = cell(TRANSLATION, 1, "multi_level.concat", 5)
    yield Claim("PHP manual, translation: `concat` − `add`, nats (less is better)", number, "3", "translation")
    number = f"{cell(TRANSLATION, 1, 'multi_level.concat', 8)}, p {cell(TRANSLATION, 1, 'multi_level.concat', 9)}"
    yield Claim("… s-BLEU, all lines (42 % of them in training)", number, "3", "translation")
    for operator in ("concat", "concat_addition"):
        system = operator.replace("_", "-")
        name = f"docmix, translation: `{operator}` − `add`, nats (less is better); s-BLEU"
        number = f"{cell(ORDINARY, 7, f'{system} |', 3)}; {chosen(system, 'fusion')}"
        yield Claim(name, number, "3", "docmix-fusion")
    name = "… the same models on news of 2018, 2019 and 2021: `concat_addition` − `add`, s-BLEU"
    yield Claim(name, "; ".join(news()), "3", "news")


def news() -> Iterator[str]:
    """What the default's fusion gains over `add` on news of three years, in s-BLEU."""
    for scores in read("ordinary.jsonl/news/comparison.json")["systems"]["concat-addition"]["tests"].values():
        yield difference(scores["paired"])


def agreement(system: str, given: str, test: str = "diabla") -> str:
    """How often *tu* or *vous* is right, in percent: the mean over the seeds of a system."""
    return f"{fmean(row['agreement'] for row in dialogues(test, system, given)):.1f}"


def gain(test: str, system: str, given: str) -> str:
    """Points of right forms over the sentence model: the least and the most of the seeds."""
    points = [row["against_sentence"]["agreement"][0] for row in dialogues(test, system, given)]
    return f"{min(points):.1f} to {max(points):.1f}"


def true_minus_foreign(test: str, system: str, score: str) -> list[float]:
    """What the true third gives over a foreign one, a number a seed."""
    third, foreign = (
        {row["seed"]: row[score] for row in dialogues(test, system, given)} for given in ("third", "foreign")
    )
    return [third[seed] - foreign[seed] for seed in sorted(third)]


def spread(values: list[float]) -> str:
    """Mean (least to most) of differences."""
    return f"{fmean(values):+.2f} ({min(values):+.2f} to {max(values):+.2f})".replace("-", "−")


def seeds_range(values: list[float], digits: int = 2) -> str:
    """Least to most of differences."""
    return f"{min(values):+.{digits}f} to {max(values):+.{digits}f}".replace("-", "−")


def dialogues(test: str, system: str, given: str) -> list[dict[str, Any]]:
    """The scored translations of a system, one a seed."""
    wanted = (test, system, given)
    return [row for row in scored() if (row.get("set"), row.get("system"), row.get("given")) == wanted]


def rnns() -> list[float]:
    """s-BLEU of the translations that DiaBLa has itself."""
    return [row["s-BLEU"] for row in scored() if row.get("set") == "diabla, written in English"]


@cache
def scored() -> list[dict[str, Any]]:
    """What the study of dialogue kept."""
    return [json.loads(line) for line in kept("dialogue.jsonl").read_text(encoding="utf-8").splitlines()]


def unseen(system: str, corpus: str = "manual") -> float:
    """s-BLEU on unseen lines."""
    score: float = read(f"manual.jsonl/{corpus}/unseen lines/{system}.json")["s-BLEU"]
    return score


def forms() -> Iterator[tuple[str, ...]]:
    """Forms of address on DiaBLa and game files, by what is known of them."""
    yield "you know", "use", "DiaBLa", "foreign", "games", "foreign"
    third = "the first third"
    for known, use, system, given in (
        ("nothing", "a sentence model", "sentence", "none"),
        ("nothing", "a model with `--target-context`", "steady", "none"),
        (third, "a sentence model, which does not read it", "sentence", "third"),
        (third, "a model with `--target-context`, and `--given`", "steady", "third"),
        (third, "a model trained with `--formality-share`; `--given` and `--formality given`", "forms", "third"),
        ("the form", "a model trained with `--formality-share`; `--formality`", "forms", "asked"),
    ):
        cells = []
        for test in ("diabla", "games"):
            for how in (given, "foreign" if given == "third" and system != "sentence" else ""):
                there = how and (test, how) != ("games", "asked")
                cells.append(agreement(f"{system}, longest start", how, test) if there else "")
        yield known, use, *cells


def dialogue_scores() -> Iterator[tuple[str, ...]]:
    """s-BLEU on DiaBLa where the first third of each dialogue was given."""
    head = ("− sentence model", "largest p", "with a foreign third", "largest p", "true − foreign, 95 %")
    yield "DiaBLa, first third given", "s-BLEU", *head
    names = {"sentence": "sentence model", "steady": "`cond_transformer`, `--target-context conditional`",
             "forms": "sentence model with a tag", "forms and steady": "both"}  # fmt: skip
    for system, name in names.items():
        cells = [f"{fmean(row['s-BLEU'] for row in dialogues('diabla', f'{system}, longest start', 'third')):.1f}"]
        for given in ("third", "foreign") if system != "sentence" else ():
            those = dialogues("diabla", f"{system}, longest start", given)
            cells.append(spread([row["against_sentence"]["s-BLEU"][0] for row in those]))
            cells.append(f"{max(row['against_sentence']['s-BLEU'][3] for row in those):.3f}".removeprefix("0"))
        if system != "sentence":
            cells.append(over_seeds(true_minus_foreign("diabla", f"{system}, longest start", "s-BLEU"), 2))
        yield name, *(*cells, *[""] * 5)[:6]


def memories() -> Iterator[tuple[str, ...]]:
    """s-BLEU on unseen lines with and without a memory."""
    yield "unseen lines of", "lines", "sentence model", "translation memory", "kNN-MT", "pointer"
    for corpus, name in (("manual", "PHP manual"), ("help", "LibreOffice's help"), ("handbooks", "handbooks")):
        pointer = (unseen("copy-1", corpus) + unseen("copy-2", corpus)) / 2
        lines = read(f"manual.jsonl/{corpus}/unseen lines/sentence.json")["lines"]
        scores = (*(unseen(system, corpus) for system in ("sentence", "fuzzy", "knn")), pointer)
        yield name, f"{lines:,}", *(f"{score:.1f}" for score in scores)


def models() -> Iterator[tuple[str, ...]]:
    """Where a document model is better than a sentence model, and where not."""
    yield "text", "what helps", "score", "sentence model", "with it", "foreign"
    def ways(system: str) -> tuple[tuple[str, str], ...]:
        return ("sentence", "third"), (system, "third"), (system, "foreign")

    form, same, third = "*tu*/*vous* right, %", "the same", "first third translated"
    sentence, source = (copied("contexts-manual", row, 3) for row in ("sentence, in batches", "cond, source side"))
    yield "PHP manual, source only", "nothing found", "s-BLEU", f"{float(sentence):.1f}", f"{float(source):.1f}", ""
    for text, what, test, system in (
        (f"dialogue (DiaBLa), {third}", "a tag of the last given form", "diabla", "forms"),
        (same, "`cond_transformer`, `--target-context conditional`", "diabla", "steady"),
        (f"game files, {third}", "the tag; about half of the gain is context", "games", "forms"),
        (same, "the document model; true − foreign not significant", "games", "steady"),
    ):
        which = ((f"{name}, longest start", how) for name, how in ways(system))
        yield text, what, form, *(agreement(*way, test) for way in which)
    de = (agreement(*way, "xdailydialog") for way in ways("steady"))
    what = "the document model; a foreign third gives a third of the gain"
    yield f"XDailyDialog, {third}", what, "*du*/*Sie* right, %", *de
    for corpus, text, what in (("manual", "PHP manual", "`copy_transformer` with a memory"),
                               ("help", "LibreOffice's help", "the same, not significant")):  # fmt: skip
        pointer = (unseen("copy-1", corpus) + unseen("copy-2", corpus)) / 2
        yield f"{text}, unseen lines", what, "s-BLEU", f"{unseen('sentence', corpus):.1f}", f"{pointer:.1f}", ""
    seeds = ("hier_cond", "hier_cond-2", "hier_cond-3")
    own, foreign = right(*seeds), right(*seeds, questions="foreign-context")
    text = "generated documents of 10 to 16 sentences"
    yield text, "`hier_cond_transformer`", "right answer, %", right("sentence"), own, foreign


def gains() -> Iterator[tuple[str, ...]]:
    """What memories gain over the sentence model, s-BLEU with its interval."""
    yield "lines", "system", "PHP manual", "p", "LibreOffice's help", "p", "handbooks", "p"
    names = {"fuzzy": "translation memory", "knn": "kNN-MT", "copy-1": "pointer, seed 1", "copy-2": "pointer, seed 2"}
    for part in ("unseen lines", "all lines"):
        for system, name in names.items():
            cells = []
            for corpus in ("manual", "help", "handbooks"):
                over = read(f"manual.jsonl/{corpus}/{part}/{system}.json")["over the sentence model"]
                *interval, p = over["s-BLEU"]
                cells.append("{:+.1f} ({:+.1f} to {:+.1f})".format(*interval).replace("-", "−"))
                cells.append(f"{p:.3f}".removeprefix("0"))
            yield part, name, *cells


def found_sentences() -> Iterator[tuple[str, ...]]:
    """Right answers by length, of each architecture and of the look-up, in percent."""
    lengths = ("true-context", "foreign-context", "32-sentences", "128-sentences", "512-sentences", "2048-sentences")
    yield "`--arch`", "10 to 16 sentences", "foreign", *(length.partition("-")[0] for length in lengths[2:])
    for system, name in (
        ("sentence", "`transformer`"), ("2-to-1", "`concat_transformer`, two to one"),
        ("4-to-4", "`concat_transformer`, four to four"), ("doc", "`doc_transformer`"),
        ("g_transformer", "G-Transformer (plug-in)"), ("scaleformer", "`scaleformer`"), ("han", "HAN (plug-in)"),
        ("hier-random", "`hier_transformer`, random start"), ("hier", "`hier_transformer`"),
        ("cond", "`cond_transformer`"), ("tree", "`hier_cond_transformer --merge mean`"),
        ("hier_cond", "`hier_cond_transformer`"),
    ):  # fmt: skip
        reports = read(f"discourse.jsonl/{system}.json")["contrastive"]
        yield name, *(f"{reports[length]['accuracy']:.1f}" if length in reports else "" for length in lengths)
    names = ("", ".foreign", ".32", ".128", ".512")
    shares = (read(f"retrieval.jsonl/name/contrastive{name}.json")["right"] for name in names)
    yield "look-up of the nearest sentence with the same name", *(f"{share:.1f}" for share in shares), ""


def mechanisms() -> Iterator[tuple[str, ...]]:
    """What changes if one part of conditional attention does: right answers of validation, one seed."""
    yield "changed", "option", "right, %"
    for name, changed, option in (
        ("base", "nothing: equation 7 in the encoder, t = 4", ""),
        ("t-1", "one sentence a word and head", "`--top-t 1`"),
        ("t-2", "two", "`--top-t 2`"),
        ("t-8", "eight", "`--top-t 8`"),
        ("not-all-first", "never reads all sentences", "`--read-all-updates 0`"),
        ("merge-mean", "the paper's tree, means", "`--merge mean`"),
        ("merge-plain", "the paper's tree, source2token", "`--merge plain_source2token`"),
        ("replace", "context heads in place of heads of self-attention", "`--context-placement replace`"),
        ("decoder", "context in the decoder", "`--context-sides decoder`"),
        ("both-sides", "on both sides", "`--context-sides both`"),
        ("no-positions", "no positions", "`--position none`"),
        ("fusion-concat", "positions concatenated", "`--position-fusion concat`"),
        ("source-mask", "masked source words", "`--source-mask 0.1`"),
        ("summaries-only", "attention to summaries alone", "`hier_transformer`"),
        ("summaries-random", "the same from a random start", "`--no-equal-start`"),
        ("whole-document", "attention to all words", "`doc_transformer`"),
        ("no-context", "no context", "`transformer`"),
    ):
        yield changed, option, right(name, study="ablation")


def boundaries() -> Iterator[tuple[str, ...]]:
    """Right answers with wrong sentence boundaries at test, by how the model was trained; one seed."""
    kinds = ("right-boundaries", "move-0.1", "move-0.3", "merge-0.1", "merge-0.3")
    yield "trained with", *("right ones" if kind[0] == "r" else f"{kind[-1]}0 % {kind[:-4]}d" for kind in kinds)
    for name in ("right", *kinds[1:]):
        cells = (right(name, questions=kind, study="boundaries") for kind in kinds)
        yield "right boundaries" if name == "right" else f"{name[-1]}0 % {name[:-4]}d", *cells


def sizes() -> Iterator[tuple[str, ...]]:
    """How good a sentence model gets, by text, size and time on a core with bfloat16."""
    yield "training text", "lines", "model", "hours of a core", "test text", "s-BLEU"
    minutes, docmix = read("quickstart.jsonl/training.json")["rows"][0][4], read("docmix.jsonl/sentence.json")
    score = read("quickstart.jsonl/overview.json")["rows"][0][1]
    yield "generated documents", "40,559", "`_tiny`", f"{float(minutes) / 60:.2f}", "generated", score
    hours = (docmix["minutes"] + docmix["before"][1]) / 60
    score = docmix["scores"]["ted"]["s-BLEU"]
    yield "docmix, many domains", "291,239", "`_tiny`", f"{hours:.1f}", "TED", f"{score:.1f}"
    hours = sum(map(int, read("real.jsonl/systems.json")["rows"][0][4].split(" + "))) / 60
    known = ("manual", "120,603", "PHP manual", hours), ("help", "61,916", "LibreOffice's help", 1.0)
    for corpus, lines, name, needed in known:
        score = read(f"manual.jsonl/{corpus}/all lines/sentence.json")["s-BLEU"]
        yield name, lines, "`_small`", f"{needed:.1f}", "the same", f"{score:.1f}"
    for test, name in (("games", "other games"), ("diabla", "DiaBLa")):
        score = fmean(row["s-BLEU"] for row in dialogues(test, "sentence, longest start", "none"))
        yield "games", "227,336", "`_small`", "3.0", name, f"{score:.1f}"


def phenomena() -> Iterator[tuple[str, ...]]:
    """What the published models answer in documents of 10 to 16 sentences, at two rates, seed by seed."""
    kinds = "ellipsis", "pronoun", "address", "sense"
    yield "system", "rate", "seed", *kinds
    rates = ("published", "0.0014"), ("published-rate", "0.0007")
    for system, (study, rate), seed in product(("g_transformer", "han"), rates, "123"):
        by = read(f"published.jsonl/{study}/{system}/seed-{seed}/10-16.true.json")["by"]["phenomenon"]
        yield system, rate, seed, *(f"{by[kind]['accuracy']:.1f}" for kind in kinds)


def hours() -> Iterator[tuple[str, ...]]:
    """How long the trainings took of which a study kept the time, each counted once."""
    yield "study", "trainings", "hours of a core"
    reports = [row["json"] for name in ("discourse", "boundaries", "ablation", "ablation-bible", "docmix")
               for row in rows(kept(f"{name}.jsonl")).values()]  # fmt: skip
    minutes = {report["minutes"]: report for report in reports}  # the ablation has systems of discourse, too
    dialogue: dict[str, float] = {}  # a training that goes on has several rows: the last one has its whole time
    for row in scored():
        if "training" in row:
            begun = json.dumps([row["training"], row["valid"][0]])
            dialogue[begun] = max(row["wall"], dialogue.get(begun, 0))
    cells = [row["json"] for row in rows(kept("fusion.jsonl.xz")).values() if isinstance(row.get("json"), dict)]
    logs = {row["text"] for row in rows(kept("ordinary.jsonl")).values() if row["file"].endswith("train.jsonl")}
    seconds = {
        "discourse, ablation, docmix": [60 * spent for spent in minutes],
        "dialogue": [*dialogue.values()],
        "fusion_matters": [run["train_seconds"] for run in cells if "train_seconds" in run],
        "ordinary": [json.loads(log.splitlines()[-1])["wall"] for log in logs],
    }
    seconds["**all**"] = [wall for walls in seconds.values() for wall in walls]
    for study, walls in seconds.items():
        yield study, f"{len(walls):,}", f"{sum(walls) / 3600:.1f}"


def numbers() -> dict[str, str]:
    """What sentences of README and guides say."""
    chrf = [line.split(" | ")[5].split(" ")[0] for line in tables(printed(DOCMIX))[3].splitlines()
            if "| document | sentence |" in line]  # fmt: skip
    ours = fmean(row["s-BLEU"] for row in dialogues("diabla", "sentence, longest start", "none"))
    whole = {name: [read(f"manual.jsonl/{corpus}/all lines/{name}.json")["over the sentence model"]["s-BLEU"][0]
                    for corpus in ("manual", "help", "handbooks")] for name in ("fuzzy", "copy-1")}  # fmt: skip
    retrieval = read("retrieval.jsonl/name/contrastive.json")["right"]
    with_document, without, *_ = nats()
    quick, steps = read("quickstart.jsonl/overview.json")["rows"], read("processes.jsonl/gpu-step.json")["rows"]
    return {
        "rnn": " and ".join(f"{score:.0f}" for score in rnns()),
        "rnns": " and ".join(f"{score:.1f}" for score in rnns()),
        "our": f"{ours:.1f}",
        "behind": cell(ORDINARY, 2, "document ", 3).split()[0].lstrip("+"),
        "worth": cell(ORDINARY, 2, "document ", 4).split()[0].lstrip("+"),
        "tag-saves": cell(ORDINARY, 1, "what the tag saves", 4),
        "batches": cell(ORDINARY, 3, "sentence-documents", 3).split()[0].lstrip("+"),
        "pieces": cell(ORDINARY, 3, "document-pieces", 3),
        "courts-svm": ", ".join(
            f"{100 * read(f'fusion.jsonl.xz/scotus_lengths/svm-{words}.json')['accuracy']:.0f}" for words in COURTS
        ),
        "written": f"{read('given.jsonl/diabla/sentence.seeds/written.json')['s-BLEU']:.1f}",
        "written-all": f"{read('given.jsonl/diabla/sentence.seeds/none.json')['s-BLEU']:.1f}",
        "steady-gain": difference(read("given.jsonl/diabla/steady.seeds/third.json")["paired"]),
        "steady-worth": difference(read("given.jsonl/diabla/steady.seeds/third.json")["foreign"]),
        "joined-two": difference(read("given.jsonl/diabla/concat.seeds/third.json")["foreign"]),
        "joined-worth": difference(read("given.jsonl/diabla/concat4.seeds/third.json")["foreign"]),
        "width-concat": over_add(WIDTH, "width1024", "concat"),
        "width-gate": over_add(WIDTH, "width1024", "gate_scalar"),
        "courts-gate": over_add(SCOTUS, "words2048", "gate_scalar"),
        "courts-long": over_add(SCOTUS, "words4096", "gate_scalar"),
        "concat-saves": cell(ORDINARY, 7, "concat-addition", 3),
        "concat-gains": chosen("concat-addition", "fusion").replace("+", ""),
        "document-gains": chosen("document"),
        "document-chrf": chosen("document", metric="chrF"),
        "document-rival": difference(document_rival()),
        "rival-d-bleu": difference(document_rival(), "d-BLEU"),
        "rival-seeds": by_seed(document_rival()),
        "rival-d-seeds": by_seed(document_rival(), "d-BLEU"),
        "document-seeds": by_seed(compared("document")),
        "pieces-seeds": by_seed(compared("sentence-pieces")),
        "foreign-seeds": by_seed(compared("document", kind="foreign")),
        "document-true": chosen("document", kind="foreign"),
        "unseen-document": on_unseen("document"),
        "unseen-rival": on_unseen("document-pieces"),
        "document-foreign": chosen("document", kind="foreign").replace("+", ""),
        "pieces-gain": chosen("sentence-pieces"),
        "pieces-chrf": chosen("sentence-pieces", metric="chrF"),
        "forth": f"{forth():.2f}",
        "repaired": repaired("document"),
        "reranked": cell(ORDINARY, 5, "tests", 3),
        "reranked-chrf": cell(ORDINARY, 6, "tests", 3),
        "concat-pieces": cell(ORDINARY, 8, "document ", 3),
        "concat-rival": cell(ORDINARY, 8, "sentence-pieces", 3),
        "news-gains": ", ".join(news()),
        "fresh-short": rival("concat-addition", FRESH_SEEDS, "fresh, 10-16"),
        "fresh-far": rival("concat-addition", FRESH_SEEDS.replace("fresh/", "fresh-seeds/"), "fresh, 512"),
        "fresh-default": rival("concat-addition", FRESH_SEEDS, "fresh, 128"),
        "fresh-add": rival("add", FRESH_SEEDS, "fresh, 128"),
        "horizon-two": cell(FRESH_LENGTHS, 2, "r-4: right", 3),
        "horizon-four": cell(FRESH_LENGTHS, 2, "r-4: right", 4),
        "with": f"{with_document:.4f}",
        "without": f"{without:.4f}",
        "context": f"{without - with_document:.3f}",
        "xdaily": gain("xdailydialog", "steady", "third"),
        "xdaily-foreign": gain("xdailydialog", "steady", "foreign"),
        "xdaily-worth": over_seeds(true_minus_foreign("xdailydialog", "steady", "agreement"), 1),
        "games-worth": over_seeds(true_minus_foreign("games", "steady, longest start", "agreement"), 1),
        "games": agreement("steady, longest start", "third", "games"),
        "games-foreign": agreement("steady, longest start", "foreign", "games"),
        "learned": next(row.number for row in discourse() if row.claim.startswith("random start, flat")),
        "ours": f"{ours:.0f}",
        "docmix": f"{-float(max(chrf, key=float)):.1f} to {-float(min(chrf, key=float)):.1f}",
        "memory": f"{min(whole['fuzzy']):.1f} to {max(whole['fuzzy']):.1f}",
        "pointer": f"{min(whole['copy-1']):.1f} to {max(whole['copy-1']):.1f}",
        "look-up": f"{retrieval:.0f}",
        "doc-equal": rival("doc"),
        "replace": rival("replace"),
        "other-person": rival("replace", SAME_NAME, "128, other name"),
        "same-person": rival("replace", SAME_NAME, "128, same name"),
        "flat-other": rival("flat", SAME_NAME_OTHERS, "128, other name"),
        "flat-same": rival("flat", SAME_NAME_OTHERS, "128, same name"),
        "tree-same": rival("tree", SAME_NAME_OTHERS, "128, same name"),
        "doc-same": rival("doc", SAME_NAME_OTHERS, "128, same name"),
        "tree": rival("tree", TREE),
        "tree-far": rival("tree", TREE, "512"),
        "g-transformer": rival("g_transformer", PUBLISHED),
        "han": rival("han", PUBLISHED),
        "g-transformer-slow": rival("g_transformer", HALF_RATE),
        "han-slow": rival("han", HALF_RATE),
        "far": right("hier_cond", "hier_cond-2", "hier_cond-3", questions="2048-sentences"),
        "foreign": right("hier_cond", "hier_cond-2", "hier_cond-3", questions="foreign-context"),
        "chance": right("sentence"),
        "h200": next(row[2] for row in steps if row[0].startswith("… and tiles")),
        "quick-true": quick[1][2],
        "quick-foreign": quick[2][2],
    }


TABLES = {
    "forms": forms, "memory": memories, "models": models, "gains": gains,
    "sentences": found_sentences, "sizes": sizes, "dialogue": dialogue_scores,
    "mechanisms": mechanisms, "boundaries": boundaries, "hours": hours, "phenomena": phenomena,
}  # fmt: skip


def main() -> None:
    """Print what was wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=TABLES)
    parser.add_argument("--numbers", action="store_true", help="as JSON")
    options = parser.parse_args()
    if options.numbers:
        print(json.dumps(numbers(), indent=1))
    elif options.table:
        head, *rows = TABLES[options.table]()
        rule = ["---:" if all(row[n][:1].isdigit() or not row[n] for row in rows) else "---" for n in range(len(head))]
        print("\n".join("|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in (head, rule, *rows)))
    else:
        print("| claim | number (in brackets 95 %) | seeds | measured by | kept in |\n| --- | --- | ---: | --- | --- |")
        for study in (real, discourse, dialogue, others, card, fusion):
            for row in study():
                page, command, file = STUDIES[row.study]
                print(f"| [{row.claim}]({page}.md) | {row.number} | {row.seeds} | `{command}` | `{file}` |")


if __name__ == "__main__":
    main()
