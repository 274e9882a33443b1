"""docnmt-convert of M2M100, NLLB and mBART-50: transformers' numbers and ours are the same, in several directions.

The models have random weights and several shapes. Transformers searches by docnmt's algorithm.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import translated
from parallel_text import ParallelText

models = pytest.importorskip("multilingual_models", reason="transformers is not installed")


import transformers  # noqa: E402
from small_system import target_log_probs as log_probs  # noqa: E402

import docnmt  # noqa: E402
from docnmt.cli.convert import main as convert  # noqa: E402
from docnmt.cli.preprocess import main as preprocess  # noqa: E402
from docnmt.cli.train import main as train  # noqa: E402
from docnmt.cli.translate import main as translate  # noqa: E402
from docnmt.core.corpus import ParallelCorpus  # noqa: E402
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig  # noqa: E402
from docnmt.core.search.translate import translate_corpus  # noqa: E402
from docnmt.core.tokenizer import BOS, BRK, MASK  # noqa: E402
from docnmt.core.training.checkpoint import LoadedModel, load_model  # noqa: E402
from docnmt.core.translation_task import DocumentTranslation  # noqa: E402

SOURCES, TARGETS = models.sentences(60, seed=5), models.sentences(60, seed=6)
#: Two directions of each family of models.
DIRECTIONS = {
    "m2m100": [("en", "fr"), ("ru", "de")],
    "nllb": [models.CODES[:2], models.CODES[2:0:-1]],
    "mbart50": [("en_XX", "fr_XX"), ("ru_RU", "de_DE")],
}
LIMIT = 12  # subwords of a translation, its tag not counted


@dataclass
class System:
    """A folder and what docnmt makes of it."""

    folder: Path
    family: str

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Two directions."""
        return DIRECTIONS[self.family]

    @cached_property
    def theirs(self) -> Any:
        return models.Loaded(self.folder / "theirs")

    @cached_property
    def ours(self) -> LoadedModel:
        return load_model(self.folder / "own")

    def between(self, source: str, target: str) -> LoadedModel:
        """Ours, in a direction; theirs is set to it."""
        self.theirs.languages(source, target)
        task: Any = self.ours.task
        return replace(self.ours, task=task.between(source, target))


@pytest.fixture(scope="module", params=models.SHAPES)
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> System:
    folder, shape = tmp_path_factory.mktemp("system"), models.SHAPES[request.param]
    models.write(folder / "theirs", **shape)
    assert convert([str(folder / "theirs"), str(folder / "own"), "--to", "docnmt"]) == 0
    return System(folder, shape["family"])


def columns(theirs: Any, names: list[str]) -> list[int]:
    """The column of transformers' logits for each of our entries; -1 of those that it has not."""
    table = theirs.tokenizer.get_vocab()
    table |= getattr(theirs.tokenizer, "lang_token_to_id", {})
    rows = [table.get(name.strip("<>") if name.startswith("<<") else name, -1) for name in names]
    rows = [table[name[1:-1]] if name.startswith("<<") else row for name, row in zip(names, rows, strict=True)]
    rows = [int(name[10:]) if name.startswith("madeupword") else row for name, row in zip(names, rows, strict=True)]
    rows[BOS] = rows[BRK] = rows[MASK] = -1  # docnmt's own
    return rows


def test_texts_are_cut_into_the_same_subwords(system: System) -> None:
    for source, target in system.pairs:
        task: Any = system.between(source, target).task
        there = columns(system.theirs, task.source_tokenizer.vocabulary())
        given = system.theirs.tokenizer(SOURCES, text_target=TARGETS)
        for tokenizer, texts, rows in (
            (task.source_tokenizer, SOURCES, given["input_ids"]), (task.target_tokenizer, TARGETS, given["labels"]),
        ):  # fmt: skip
            assert [[*(there[n] for n in ids), 2] for ids in tokenizer.encode(texts)] == rows


def test_logits_are_the_same(system: System) -> None:
    for pair in system.pairs:
        ours, spread = system.between(*pair), 0.0
        there = columns(system.theirs, ours.task.target_tokenizer.vocabulary())
        known = [number for number, column in enumerate(there) if column >= 0]
        assert len(there) - len(known) == 3  # <s>, <brk> and <mask>
        assert len(known) == system.theirs.model.config.vocab_size
        chosen = [there[number] for number in known]
        expected = system.theirs.logits(SOURCES, TARGETS)
        for (logits, probabilities), other in zip(log_probs(ours, SOURCES, TARGETS), expected, strict=True):
            torch.testing.assert_close(logits[:, known], other[:, chosen], atol=3e-5, rtol=0)
            torch.testing.assert_close(probabilities[:, known], other.log_softmax(-1)[:, chosen], atol=3e-5, rtol=0)
            spread = max(spread, float(other.std()))
        assert spread > 0.5


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_the_same(system: System, beam: int) -> None:
    written = []
    for pair in system.pairs:
        ours = system.between(*pair)
        task: Any = ours.task
        corpus = ParallelCorpus.from_lines([SOURCES], task.source_tokenizer)
        search = BeamSearchConfig(beam=beam, max_len_a=0, max_len_b=LIMIT, min_len=0)
        best = [result.nbest[0] for result in translate_corpus([ours.model], task, corpus, GenerationConfig(), search)]
        names = task.target_tokenizer.vocabulary()
        there = dict(zip(names, columns(system.theirs, names), strict=True))
        rows, scores = system.theirs.translate(SOURCES, beam, LIMIT)
        assert [[*(there[piece] for piece in hypothesis.pieces), 2] for hypothesis in best] == rows
        special = [name for name in names if "_" in name or name.startswith(("madeup", "<"))]  # they leave other traces
        plain = [n for n, hypothesis in enumerate(best) if not {*hypothesis.pieces[1:]} & {*special}]
        assert plain
        assert [best[n].text for n in plain] == [system.theirs.text(rows[n]) for n in plain]
        assert {hypothesis.pieces[0] for hypothesis in best} == {task.target_tokenizer.preparation.tags[pair[1]]}
        if scores is not None:
            lengths = [len(row) for row in rows]  # the tag and the end included
            means = [score * n / (n - 1) for score, n in zip(scores, lengths, strict=True)]
            assert [hypothesis.score for hypothesis in best] == pytest.approx(means, rel=1e-5, abs=1e-4)
        written.append(rows)
    assert len({tuple(row) for row in written[0]}) > 4
    assert [row[1:] for row in written[0]] != [row[1:] for row in written[1]]  # the languages matter


PAIR = {"m2m100": ("ru", "de"), "nllb": ("rus_Cyrl", "fra_Latn"), "mbart50": ("ru_RU", "de_DE")}
ENGLISH = {"m2m100": "en", "nllb": "eng_Latn", "mbart50": "en_XX"}


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    said = [line for line in capsys.readouterr().err.splitlines() if " error: " in line]
    assert len(said) == 1
    return said[0]


@pytest.mark.parametrize("family", PAIR)
def test_a_vocabulary_of_two_languages_gives_the_same_logits(tmp_path: Path, family: str) -> None:
    """Latin letters stay, Cyrillic ones only where a language has them."""
    source, target = PAIR[family]
    kind = "unigram" if family == "mbart50" else "bpe"
    models.write(tmp_path / "theirs", family=family, kind=kind, shards="20KB")
    assert len(list((tmp_path / "theirs").glob("model-*.safetensors"))) > 1
    kept = {"both": [source, f"{target}=xy"], "latin": [target, ENGLISH[family]]}
    for name, languages in kept.items():
        words = [str(tmp_path / "theirs"), str(tmp_path / name), "--to", "docnmt", "--languages", *languages]
        assert convert(words) == 0
    theirs = models.Loaded(tmp_path / "theirs")
    ours, latin = (load_model(tmp_path / name) for name in kept)
    task, other = ours.task, latin.task
    assert isinstance(task, DocumentTranslation)
    assert isinstance(other, DocumentTranslation)
    assert task.languages == (source, "xy")
    theirs.languages(source, target)
    there = columns(theirs, task.target_tokenizer.vocabulary())
    assert min(there[5:]) >= 0
    assert len(there) < theirs.model.config.vocab_size
    chosen = [row for row in there if row >= 0]
    for (logits, _), rows in zip(log_probs(ours, SOURCES, TARGETS), theirs.logits(SOURCES, TARGETS), strict=True):
        torch.testing.assert_close(logits[:, [n for n, row in enumerate(there) if row >= 0]], rows[:, chosen],
                                   atol=3e-5, rtol=0)  # fmt: skip
    assert other.target_vocabulary_size < task.target_vocabulary_size
    assert not any(letter in "бдфк" for piece in other.target_tokenizer.vocabulary() for letter in piece)
    plain = [text for text in SOURCES if text.isascii()]
    cut = [[tokenizer.pieces(ids[1:]) for ids in tokenizer.encode(plain)]
           for tokenizer in (task.source_tokenizer, other.source_tokenizer)]  # fmt: skip
    assert cut[0] == cut[1]


def test_commands_and_python_translate_into_the_language_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models.write(tmp_path / "theirs", family="nllb")
    assert convert([str(tmp_path / "theirs"), str(tmp_path / "own"), "--to", "docnmt"]) == 0
    theirs, texts = models.Loaded(tmp_path / "theirs"), SOURCES[:6]
    limits = {"max_len_a": 0, "max_len_b": LIMIT, "min_len": 0}
    options = ["--input-format", "corpus"]
    options += [word for name, value in limits.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    loaded = docnmt.load(tmp_path / "own")
    for source, target in (("eng_Latn", "rus_Cyrl"), ("fra_Latn", "zho_Hans")):
        theirs.languages(source, target)
        expected = [theirs.text(rows) for rows in theirs.translate(texts, 2, LIMIT)[0]]
        direction = ["--source-lang", source, "--target-lang", target]
        said = translated(tmp_path / "own", "\n".join(texts) + "\n", monkeypatch, *options, *direction).splitlines()
        results = loaded.translate(texts, beam=2, source_lang=source, target_lang=target, **limits)
        assert said == [result.text for result in results]
        assert [result.text for result in results] == expected
        labels = theirs.tokenizer(texts, text_target=TARGETS[:6])["labels"]
        forced = [logits.log_softmax(-1)[torch.arange(len(rows)), rows][1:].mean()
                  for logits, rows in zip(theirs.logits(texts, TARGETS[:6]), labels, strict=True)]  # fmt: skip
        scores = loaded.score(texts, TARGETS[:6], source_lang=source, target_lang=target)
        # of the tokens after the tag
        assert scores == pytest.approx([float(score) for score in forced], rel=1e-5, abs=1e-4)
    capsys.readouterr()
    assert translate(["--path", str(tmp_path / "own"), *options, "--target-lang", "de"]) == 2
    assert "--target-lang de" in one_line(capsys)


@pytest.mark.parametrize(
    ("family", "codes"), [("nllb", ("zho_Hans", "eng_Latn", "fra_Latn")), ("mbart50", ("zh_CN", "en_XX", "fr_XX"))]
)
def test_data_is_tagged_and_documents_are_learned_from_the_same_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], family: str, codes: tuple[str, str, str]
) -> None:
    """In another direction than the conversion's, and with subwords drawn anew."""
    models.write(tmp_path / "theirs", family=family, kind="unigram")
    own, data, text = tmp_path / "own", tmp_path / "data", ParallelText(tmp_path)
    words = [str(tmp_path / "theirs"), str(own), "--to", "docnmt"]
    assert convert([*words, "--languages", codes[0], f"{codes[1]}=en", f"{codes[2]}=de"]) == 0
    files = [f"--trainpref={text.path('train')}", f"--validpref={text.path('dev')}", f"--destdir={data}"]
    assert preprocess(["-s", "en", "-t", "de", *files, f"--srcdict={own}"]) == 0
    corpus = ParallelCorpus.open(data, "train")
    task: Any = load_model(own).task.between("en", "de")  # type: ignore[attr-defined]
    assert task.source_tokenizer.pieces([corpus.source[0][0]]) == [codes[1]]
    assert corpus.target is not None
    assert task.target_tokenizer.pieces([corpus.target[0][0]]) == [codes[2]]
    start = ["--config", str(own / "model.yaml"), "--finetune-from-model", str(own), "--max-tokens", "500"]
    for arch, more in (("transformer", ["--subword-sampling", "0.3"]), ("cond_transformer", [])):
        run = ["--arch", arch, "--save-dir", str(tmp_path / arch), "--max-update", "1", "--lr", "1e-20"]
        assert train([str(data), *run, *start, *more]) == 0
    capsys.readouterr()
    sentences = [[str(line) for line in corpus.source_text][:8]], [[str(line) for line in corpus.references[0]][:8]]
    scores = [
        docnmt.load(path).score(*sentences, **more)
        for path, more in (
            (own, {"source_lang": "en", "target_lang": "de"}), (tmp_path / "transformer", {}),
            (tmp_path / "cond_transformer", {}),
        )
    ]  # fmt: skip
    assert scores[1][0] == pytest.approx(scores[0][0], rel=1e-5, abs=1e-4)
    assert scores[2][0] == pytest.approx(scores[0][0], rel=1e-5, abs=1e-4)
    assert preprocess(["-s", "en", "-t", "xx", *files, f"--srcdict={own}"]) in (1, 2)


@pytest.mark.parametrize("family", PAIR)
def test_what_config_json_leaves_out(family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether embeddings are scaled depends on the family; more entries than rows are refused."""
    models.write(tmp_path / "theirs", family=family, kind="unigram")
    file = tmp_path / "theirs" / "config.json"
    settings = json.loads(file.read_text())
    settings.pop("scale_embedding", None)
    file.write_text(json.dumps(settings))
    assert convert([str(tmp_path / "theirs"), str(tmp_path / "own"), "--to", "docnmt"]) == 0
    default = type(transformers.AutoConfig.from_pretrained(tmp_path / "theirs"))().scale_embedding
    assert load_model(tmp_path / "own").model_config.scale_embeddings is default  # type: ignore[attr-defined]
    file.write_text(json.dumps({**settings, "vocab_size": 4_000_000}))
    capsys.readouterr()
    assert convert([str(tmp_path / "theirs"), str(tmp_path / "other"), "--to", "docnmt"]) == 1
    assert "vocab_size" in one_line(capsys)


def test_the_first_mbart_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its tags are at the end of texts."""
    models.write(tmp_path / "theirs", family="mbart50", kind="unigram")
    (tmp_path / "theirs" / "tokenizer_config.json").write_text('{"tokenizer_class": "MBartTokenizer"}')
    assert convert([str(tmp_path / "theirs"), str(tmp_path / "out"), "--to", "docnmt"]) == 1
    assert "tokenizer_class" in one_line(capsys)
