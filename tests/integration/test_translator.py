"""docnmt as a library: `docnmt.load`, what its translator gives, and that the commands give the same."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import small_system
from across_batches import same_translation
from commands import SHORT, Run
from small_models import Numbers

import docnmt
from docnmt.cli import generate, score, train
from docnmt.cli.convert import main as convert
from docnmt.cli.inspect import main as inspect
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.search.glossary import Glossary
from docnmt.core.training.checkpoint import read_header
from docnmt.core.training.dry_run import model_card
from docnmt.modules.linear_layers import multiplies_eight_bits
from docnmt.runtime.system import UsageError, UserError

DOCUMENTS = small_system.text(3, 4, seed=4)
BRIEF: dict[str, Any] = {"max_len_a": 0.5, "max_len_b": 2}
ARCHITECTURES: list[tuple[str, dict[str, Any]]] = [
    ("cond_transformer", {}),
    ("concat_transformer", {"source_context": 2, "target_window": 3}),
    ("hier_cond_transformer", {"target_context": "conditional"}),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of documents, whose decoder reads what it wrote."""
    where = tmp_path_factory.mktemp("model") / "checkpoint_best.safetensors"
    return small_system.save(where, "cond_transformer_tiny", target_context="conditional")


@pytest.fixture(scope="module")
def model(path: Path) -> docnmt.Translator:
    return docnmt.load(path.parent)


@pytest.mark.skipif(not multiplies_eight_bits(), reason="no products of whole numbers here")
def test_a_precision_is_that_of_the_command(path: Path, run: Run) -> None:
    lines = DOCUMENTS[0]
    translations = docnmt.load(path, precision="int8").translate(lines, max_len_a=0.5, max_len_b=2)
    words = ["--int8", "--path", str(path), "--input-format", "corpus", "--max-len-a", "0.5", "--max-len-b", "2"]
    _, out, _ = run("translate", *words, stdin="\n".join(lines).encode())
    assert out.splitlines() == [translation.text for translation in translations]


def texts(documents: list[list[docnmt.Translation]]) -> list[list[str]]:
    return [[translation.text for translation in document] for document in documents]


def assert_same(translations: list[docnmt.Translation], expected: list[docnmt.Translation]) -> None:
    """As far as another batch may differ."""
    assert [translation.pieces for translation in translations] == [translation.pieces for translation in expected]
    assert [translation.score for translation in translations] == pytest.approx(
        [translation.score for translation in expected], rel=1e-5, abs=1e-4
    )


def test_importing_docnmt_imports_no_torch() -> None:
    code = (
        "import sys, docnmt; assert 'torch' not in sys.modules; assert docnmt.__version__\n"
        "assert docnmt.Document(('a',)).sentences == ('a',); assert 'torch' not in sys.modules\n"
        "assert {'load', 'train', 'Translator', 'Translation', 'Document'} < set(dir(docnmt))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    with pytest.raises(AttributeError, match="'lod'"):
        docnmt.lod  # noqa: B018


def test_it_translates_a_split_as_docnmt_generate(run: Run, folder: Path) -> None:
    corpus = ParallelCorpus.open(folder / "data", "test")
    documents = [list(corpus.source_text[a:b]) for a, b in pairwise(corpus.document_offsets.tolist())]
    for name in ("run", "run:second"):
        paths = [folder / "run" if part == "run" else folder / "run" / "second.safetensors" for part in name.split(":")]
        _, out, _ = run("generate", "data", "--path", ":".join(map(str, paths)), *SHORT, "--scoring", "none")
        expected = [line.split("\t") for line in out.splitlines()]
        translations = docnmt.load(paths).translate(documents, max_len_a=1, max_len_b=2)
        flat = [translation for document in translations for translation in document]
        assert [len(document) for document in translations] == [len(document) for document in documents]
        assert [row[2] for row in expected if row[0].startswith("D-")] == [translation.text for translation in flat]
        rows = [row for row in expected if row[0].startswith("H-")]
        assert [row[1:] for row in rows] == [
            [f"{translation.score:.6f}", " ".join(translation.pieces)] for translation in flat
        ]
        printed = [row[1] for row in expected if row[0].startswith("P-")]
        assert printed == [" ".join(f"{score:.4f}" for score in translation.piece_scores) for translation in flat]


def test_it_translates_a_text_as_docnmt_translate(run: Run, path: Path, model: docnmt.Translator) -> None:
    text = "The old dog sees a river. It sleeps.\n\n  the cat  finds it!\r\n"
    _, out, _ = run("translate", "--path", str(path), "--max-len-a", "0.5", "--max-len-b", "2", stdin=text.encode())
    first, second, third = model.translate(text, **BRIEF)
    assert out.splitlines() == [f"{first.text} {second.text}", "", third.text]
    lines = ["The old dog sees a river.", "It sleeps.", "the cat finds it!"]
    assert model.translate(lines, **BRIEF) == [first, second, third]
    assert_same(model.translate([lines, lines[:1]], **BRIEF)[0], [first, second, third])


def test_the_shape_and_the_number_of_sentences_stay(model: docnmt.Translator) -> None:
    documents = [["the dog sleeps.", "", "  "], [], [""], ["it", "\n", "a cat\nsees it"]]
    translations = model.translate(documents, **BRIEF)
    assert [len(document) for document in translations] == [3, 0, 1, 3]
    blank = [[not text.strip() for text in document] for document in documents]
    assert [
        [translation.pieces == () and translation.score == 0.0 and translation.text == "" for translation in d]
        for d in translations
    ] == blank
    assert texts(translations)[0][:1] == texts(model.translate([["the dog sleeps."]], **BRIEF))[0]
    assert texts(translations)[3][::2] == texts(model.translate([["it", "a cat sees it"]], **BRIEF))[0]
    assert model.translate([]) == model.translate("") == model.translate(" \n\n") == []
    assert model.translate([[]]) == [[]]
    assert model.translate(()) == []


def test_structure_is_read(tmp_path: Path) -> None:
    where = small_system.save(tmp_path / "model.safetensors", "cond_transformer_tiny", position="multi_level")
    model, sentences = docnmt.load(str(where)), DOCUMENTS[0]
    assert len(sentences) > 2
    flat = model.translate(sentences, **BRIEF)
    document = docnmt.Document.nested([sentences[:1], sentences[1:]])
    assert document.units == (("0",), *(("1",) for _ in sentences[1:]))
    inside = model.translate(document, **BRIEF)
    assert [translation.score for translation in inside] != [translation.score for translation in flat]
    deeper = docnmt.Document.nested([[sentences[:1]], [sentences[1:]]])
    for others in ([], [deeper]):
        documents = model.translate([*others, document, sentences], **BRIEF)[len(others) :]
        for translations, expected in zip(documents, (inside, flat), strict=True):
            assert_same(translations, expected)


def test_what_is_given_stays_and_is_read(model: docnmt.Translator) -> None:
    document = ["the dog sleeps.", "", "it sees a cat.", "the cat sleeps."]
    free = model.translate(document, **BRIEF)
    given = model.translate(document, given=["a river finds the old house in new.", None, None, None], **BRIEF)
    assert given[0].text == "a river finds the old house in new."
    assert (given[0].score, set(given[0].piece_scores)) == (0.0, {0.0})
    assert [translation.score for translation in given[2:]] != [translation.score for translation in free[2:]]
    with pytest.raises(UserError, match="given:"):
        model.translate(document, given=[None, None])
    with pytest.raises(UserError, match=r"given:.*'x'"):
        model.translate(document, given=[None, "x", None, None])
    with pytest.raises(UserError, match="prefix:"):
        model.translate(document, given=["a", None, None, None], prefix=["b", None, None, None])


def test_a_prefix_is_one_line_and_stands_before_what_is_not_translated(model: docnmt.Translator) -> None:
    document, prefix = ["https://a.b/c", "the dog sleeps.", "https://a.b/c"], ["See", "the\ncat", None]
    texts = [translation.text for translation in model.translate(document, prefix=prefix, **BRIEF)]
    assert texts[::2] == ["See https://a.b/c", "https://a.b/c"]
    assert texts[1].startswith("the cat")
    assert "\n" not in texts[1]


@pytest.mark.parametrize(("arch", "options"), ARCHITECTURES[1:])
def test_scores_of_its_own_translations_are_those_of_search(arch: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = docnmt.load(small_system.save(tmp_path / "m.safetensors", arch, **options), device="cpu")
    model.models.task.target_tokenizer = Numbers()  # type: ignore[misc, assignment]
    reads_given = model.models.models[0].reading.given_text  # whose own translations nothing reads
    documents = [document[:1] for document in DOCUMENTS] if reads_given else DOCUMENTS
    translations = model.translate([*documents, [""]], **BRIEF, lenpen=0.7)
    scores = model.score([*documents, [""]], texts(translations), lenpen=0.7)
    assert scores[-1] == [0.0]
    for document, expected in zip(scores, translations, strict=True):
        assert document == pytest.approx([translation.score for translation in expected], rel=1e-5, abs=1e-4)
    assert model.score(
        documents[0], [translation.text for translation in translations[0]], max_tokens=1, lenpen=0.7
    ) == (pytest.approx(scores[0], rel=1e-5, abs=1e-4))


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        *((wrong, "documents:") for wrong in (["a", ["b"]], [["a", 7]], [["a"], 7], 7, b"abc", {"a": "b"}, "a\ud800b")),
        (["a\0b"], "documents, sentence 0: NUL"),
        (["a\ud800b"], "documents, sentence 0: half a character"),
        ("a\rb", ":1:"),
    ],
)
def test_what_is_no_document_is_refused(model: docnmt.Translator, documents: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        model.translate(documents)


def test_wrong_options_are_refused(model: docnmt.Translator, path: Path) -> None:
    """By name; one that is near is named, too."""
    load: Any = docnmt.load
    ask = {
        "translate": lambda **more: model.translate(["a"], **more),
        "score": lambda **more: model.score(["a"], ["b"], **more),
    }
    for method, options, named in (
        ("translate", {"beem": 2}, "'beem'.*'beam'"),
        ("translate", {"contxt_window": 2}, "'contxt_window'.*'context_window'"),
        ("translate", {"xyz": 2}, "'xyz'"),
        ("translate", {"nbest": 2}, "'nbest'"),
        ("translate", {"lenpen": -1}, "--lenpen"),
        ("translate", {"lenpen": "a"}, "--lenpen"),
        ("translate", {"generator": "best"}, "generator:"),
        *(("translate", {"context_window": wrong}, "context_window:") for wrong in (-1, "1", True, 1.5)),
        ("translate", {"splitter": "foo"}, "splitter:"),
        *(("translate", {"glossary": wrong}, "glossary:") for wrong in ({"lamp": 3}, {" ": "Lampe"}, [("a", "b")])),
        ("score", {"context_window": -1}, "context_window:"),
        ("score", {"max_tokens": 0}, "--max-tokens"),
        *(("score", {"lenpen": wrong}, "--lenpen") for wrong in ("x", -1, float("nan"))),
        ("score", {"lenpn": 0}, "'lenpn'.*'lenpen'"),
    ):
        with pytest.raises(UserError, match=named):
            ask[method](**options)
    with pytest.raises(UsageError, match=r"'beam'.*'devise'"):
        load(path, beam=4, devise=1)
    with pytest.raises(UserError, match="--device"):
        load(path, device=None)
    with pytest.raises(UsageError, match="'beam'"):
        model.align(["a"], ["b"], beam=4)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match=r"'target'.*'targets'"):
        model.explain(["a"], target=[])
    for wrong in ([], 3, None, [path, 3], path.parent / "nothing"):
        with pytest.raises(UserError):
            load(wrong)
    with pytest.raises(UserError, match="targets:"):
        model.score(["a", "b"], ["c"])
    with pytest.raises(UserError, match="sources:"):
        model.score("a", "b")


def test_training_is_that_of_the_command(folder: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"arch": "transformer_tiny", "max_tokens": 500, "max_update": 2, "log_interval": 1}
    options |= {"embed_dim": 16, "heads": 2, "ffn_dim": 16, "encoder_layers": 1, "decoder_layers": 1}
    done = docnmt.train(folder / "data", save_dir=tmp_path / "run", lr=0.001, patience=None, **options)
    assert [entry["update"] for entry in done.history if entry["event"] == "train"] == [1, 2]
    assert done.last == tmp_path / "run" / "checkpoint_last.safetensors"
    assert done.best is not None
    assert len(docnmt.load(done.path).translate(["the dog sleeps."], max_len_a=0, max_len_b=2)) == 1
    with pytest.raises(UsageError, match="--max-updates"):
        docnmt.train(folder / "data", save_dir=tmp_path / "other", max_updates=2, **options)
    with pytest.raises(UsageError):
        docnmt.train(folder / "data", save_dir=tmp_path / "other", dry_run=True, **options)
    assert not (tmp_path / "other").exists()
    damaged = tmp_path / "data"
    shutil.copytree(folder / "data", damaged)
    text = next(damaged.glob("train.*.text.bin"))
    text.write_bytes(b"T" + text.read_bytes()[1:])
    with pytest.raises(UserError, match="train"):
        docnmt.train(damaged, save_dir=tmp_path / "other", **options)
    docnmt.train(damaged, save_dir=tmp_path / "other", skip_checksums=True, mix_data=[], **options)
    more = docnmt.train(folder / "data", save_dir=done.path, **{**options, "max_update": 3, "lr": 0.001, "bf16": False})
    assert [entry["update"] for entry in more.history if entry["event"] == "train"] == [1, 2, 3]


@pytest.mark.across_batches
@pytest.mark.parametrize(("arch", "options"), ARCHITECTURES[:2])
def test_translations_keep_to_a_glossary(arch: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = docnmt.load(small_system.save(tmp_path / "m.safetensors", arch, **options))
    terms = {"dog": "cat", "the": "old house", "a": "dog"}
    translations = model.translate(DOCUMENTS, glossary=terms, beam=3, **BRIEF)
    wanted = Glossary(terms)
    asked = [
        (wanted.found(text), translation)
        for d, t in zip(DOCUMENTS, translations, strict=True)
        for text, translation in zip(d, t, strict=True)
    ]
    assert sum(len(targets) for targets, _ in asked) > 5
    for targets, translation in asked:
        for target in targets:
            assert f" {target} " in f" {translation.text} ".replace(".", " ")
    if arch == "cond_transformer":  # no sentence reads another's translation
        path = tmp_path / "terms.tsv"
        path.write_text("".join(f"{a}\t{b}\n" for a, b in terms.items()), encoding="utf-8")
        assert texts(model.translate(DOCUMENTS, glossary=path, beam=3, **BRIEF)) == texts(translations)
        free = model.translate(DOCUMENTS, beam=3, **BRIEF)
        for document, plain, texts_ in zip(translations, free, DOCUMENTS, strict=True):
            for one, other, text in zip(document, plain, texts_, strict=True):
                assert wanted.found(text) or same_translation(one, other)


def test_the_command_of_a_model_card_asks_for_the_same_model(folder: Path, tmp_path: Path) -> None:
    """A width that the model has by default and the preset has not, and options of both kinds."""
    options: dict[str, Any] = {"arch": "hier_cond_transformer_tiny", "embed_dim": 512, "top_t": 3, "position": "rope"}
    small = {"ffn_dim": 16, "encoder_layers": 1, "decoder_layers": 1, "max_update": 0, "disable_validation": True}
    docnmt.train(folder / "data", save_dir=tmp_path / "model", **small, **options)
    checkpoint = tmp_path / "model" / "checkpoint_last.safetensors"
    command = next(line for line in model_card(checkpoint).splitlines() if line.startswith("    docnmt-train "))
    again, header = train.parse(shlex.split(command)[1:]), read_header(checkpoint)[0]
    for section, values in header["config"].items():
        for name, value in values.items():
            setting = getattr(again[section], name)
            assert (list(setting) if isinstance(setting, tuple) else setting) == value, name


@pytest.mark.parametrize("arch", ["cond_transformer", "transformer"])
def test_a_context_is_the_beginning_of_the_document_and_not_returned(arch: str, tmp_path: Path) -> None:
    more = {"target_context": "conditional"} if arch == "cond_transformer" else {}
    model = docnmt.load(small_system.save(tmp_path / "m.safetensors", f"{arch}_tiny", **more))
    before, own = DOCUMENTS[0][:2], DOCUMENTS[0][2:]
    whole = model.translate([*before, *own], **BRIEF)
    assert_same(model.translate(own, context=before, **BRIEF), whole[2:])
    known = model.translate([*before, *own], given=["kept", None, *[None] * len(own)], **BRIEF)
    for pair in ((before[0], "kept"), [before[0], "kept"]):
        assert_same(model.translate(own, context=[pair, before[1]], **BRIEF), known[2:])
    both = model.translate([own, DOCUMENTS[1]], context=[before, None], **BRIEF)
    assert_same(both[0], whole[2:])
    assert_same(both[1], model.translate(DOCUMENTS[1], **BRIEF))
    assert_same(model.translate("One two. Three.", context="", **BRIEF), model.translate("One two. Three.", **BRIEF))


# A corpus to its scores in Python: what the commands do, with their results as values.


def test_preprocess_and_generate_give_what_the_commands_write(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    sides = {"source_lang": "en", "target_lang": "de", "testpref": str(folder / "test"), "srcdict": folder / "data"}
    assert docnmt.preprocess(destdir=data, **sides) == data  # type: ignore[arg-type]
    results = docnmt.generate(data, folder / "run", device="cpu", **BRIEF)
    assert not capsys.readouterr().out
    words = ["--path", str(folder / "run"), "--device", "cpu", "--max-len-a", "0.5", "--max-len-b", "2"]
    words += ["--results-path", str(tmp_path / "r"), "--quiet"]
    assert generate.main([str(folder / "data"), *words]) == 0
    documents = (tmp_path / "r/hypotheses.txt").read_text().strip("\n").split("\n\n\n")
    assert [[translation.text for translation in document] for document in results.translations] == [
        document.split("\n") for document in documents
    ]
    scores = json.loads((tmp_path / "r/scores.json").read_text())
    without = {key: value for key, value in scores.items() if key not in ("speed", "settings")}
    assert {key: value for key, value in json.loads(json.dumps(results.scores)).items() if key in without} == without


def test_score_gives_what_the_command_prints_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ref, sys = str(folder / "test.de"), str(folder / "test.en")
    scores = docnmt.score(ref=ref, sys=sys, metrics=["TER"])
    assert not capsys.readouterr().out
    assert score.main(["--ref", ref, "--sys", sys, "--metrics", "TER", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(scores))


# Models on the Hugging Face hub: out of its local cache, without a network.


SCRIPT = """
import sys, docnmt
from docnmt.cli.translate import main
print(docnmt.load("some/model").translate(["a b c"], beam=2)[0].text)
print(docnmt.load("hf://some/model").score(["a b"], ["b a"])[0])
status = [main(["--path", path, "--input-format", "corpus", "--beam", "2"]) for path in sys.argv[1:]]
print(status)
"""


def test_a_folder_for_the_hub_is_loaded_from_its_cache(tmp_path: Path) -> None:
    """A document model, whole: card, settings of the search, checkpoint without optimizer."""
    pytest.importorskip("huggingface_hub")
    own = small_system.random_checkpoint(tmp_path / "own.safetensors")
    folder = tmp_path / "cache/models--some--model/snapshots/0123"
    assert convert([str(own), str(tmp_path / "model"), "--to", "hub-folder"]) == 0
    assert inspect(["--verify", str(tmp_path / "model")]) == 0
    card = (tmp_path / "model/README.md").read_text(encoding="utf-8")
    assert 'docnmt.load("ORGANISATION/model")' in card
    assert card.startswith("---\nlanguage:\n- ")
    assert json.loads((tmp_path / "model/generation_config.json").read_text())["num_beams"] == 5
    assert convert([str(own), str(tmp_path / "model"), "--to", "hub-folder", "-t", "de", "--overwrite"]) == 2
    shutil.copytree(tmp_path / "model", folder)
    (tmp_path / "cache/models--some--model/refs").mkdir()
    (tmp_path / "cache/models--some--model/refs/main").write_text("0123")
    settings = {"HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, "hf://some/model", "hf://some/model:hf://some/model@main", "hf://no/model"],
        input=b"a b c\n", capture_output=True, env={**os.environ, **settings}, cwd=tmp_path, check=True,
    )  # fmt: skip
    text, score, one, *others = process.stdout.decode().split("\n")
    assert text == one
    assert float(score) < 0
    assert others[-2] == "[0, 0, 1]"
    errors = [line for line in process.stderr.decode().splitlines() if " error: " in line]
    assert len(errors) == 1
    assert "hf://no/model" in errors[0]
