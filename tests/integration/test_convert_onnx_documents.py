"""docnmt-convert --to onnx of a cond_transformer: its graphs score documents, token by token, as docnmt does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_forms
import pytest
import small_system
import torch

from docnmt.cli.convert import main as convert
from docnmt.core.batching.collate import collate
from docnmt.core.batching.planned_units import planned_units
from docnmt.core.data.corpus import ParallelCorpus
from docnmt.core.data.tokenizer import BOS, BRK, EOS, MASK
from docnmt.core.search.config import GenerationConfig, GreedyConfig
from docnmt.core.search.translate_corpus import translate_corpus
from docnmt.core.training.load_model import load_model

for needed in ("onnxruntime", "onnx", "onnxscript"):
    pytest.importorskip(needed, reason="needs docnmt[onnx]")

#: Options of models: each side, each placement, with and without translations of its own.
SHAPES: list[dict[str, Any]] = [
    {"context_sides": "encoder", "norm": "post", "top_t": 2, "position_count": "document", "encoder_layers": 2},
    {"context_sides": "decoder", "context_placement": "replace", "context_heads": 4, "position": "learned", "top_t": 1,
     "decoder_layers": 2},
    {"summary_input": "embeddings", "context_placement": "heads", "context_heads": 1, "norm": "post", "top_t": 3},
    {"target_context": "conditional", "target_top_t": 2, "top_t": 3, "always_own_sentence": True},
    {"target_context": "conditional", "context_sides": "encoder", "context_placement": "replace", "heads": 4},
]  # fmt: skip
#: The one with every graph and every input is always written as files.
EXPORTED = [pytest.param(shape, marks=() if "always_own_sentence" in shape else pytest.mark.slow) for shape in SHAPES]


class Other:
    """The graphs."""

    def __init__(self, graphs: dict[str, Any]) -> None:
        self.encoder, self.step, self.writes = graphs["encoder"], graphs["step"], graphs.get("written")

    def read(self, sources: list[list[int]], places: np.ndarray) -> dict[str, np.ndarray]:
        """What a step reads of a document; sentences are padded with 0."""
        tokens, mask = padded([[*text, EOS] for text in sources])
        found = self.encoder.run(None, {"source": tokens, "mask": mask, "places": places})
        names = [output.name for output in self.encoder.get_outputs()]
        return {"mask": mask, "places": places, **dict(zip(names, found, strict=True))}

    def written(self, targets: list[list[int]], places: np.ndarray) -> dict[str, np.ndarray]:
        """What a step reads of translations, if it reads them."""
        if self.writes is None:
            return {}
        tokens, mask = padded([[BOS, *text] for text in targets])
        places = places[: len(targets)]
        given = {"target": tokens, "written_mask": mask, "written_places": places}
        keys, relevance = self.writes.run(None, given)
        return {"written": keys, "written_relevance": relevance, "written_mask": mask}

    def empty(self, rows: int) -> np.ndarray:
        """The cache of rows that have read nothing."""
        layers, _, _, heads, _, size = next(each.shape for each in self.step.get_inputs() if each.name == "cache")
        return np.zeros((layers, 2, rows, heads, 0, size), np.float32)


def padded(texts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Texts as a matrix, and which of its entries are none of the padding, 0."""
    length = max(map(len, texts), default=1)
    rows = np.array([[*text, *[0] * (length - len(text))] for text in texts], np.int64).reshape(-1, length)
    return rows, np.array([[n < len(text) for n in range(length)] for text in texts], bool).reshape(-1, length)


@dataclass
class System:
    """A model and its graphs."""

    loaded: Any
    folder: Path
    other: Other


def made(settings: dict[str, Any], folder: Path, form: Callable[[Path, Path], dict[str, Any]]) -> System:
    """A model with random weights."""
    settings = {"encoder_layers": 1, "decoder_layers": 1, **settings}
    path = small_system.random_checkpoint(folder / "own.safetensors", "cond_transformer", **settings)
    graphs = form(path, folder / "other")
    assert ("written" in graphs) == ("target_context" in settings)
    return System(load_model(path), folder / "other", Other(graphs))


in_torch = onnx_forms.systems(made, SHAPES, onnx_forms.in_torch)
exported = onnx_forms.systems(made, EXPORTED, onnx_forms.in_files)


TEXTS = pytest.mark.parametrize(("sentences", "seed"), [(1, 1), (2, 2), (9, 3)])


@TEXTS
def test_the_graphs_have_the_same_logits_at_every_token(in_torch: System, sentences: int, seed: int) -> None:
    assert_logits(in_torch, sentences, seed)


@TEXTS
def test_their_files_have_the_same_logits_at_every_token(exported: System, sentences: int, seed: int) -> None:
    assert_logits(exported, sentences, seed)


def assert_logits(system: System, sentences: int, seed: int) -> None:
    """Of all sentences of a document side by side, with the reference as what was written before."""
    task, model, other = system.loaded.task, system.loaded.model, system.other
    given = [line for document in small_system.text(2 * sentences, 8, seed=seed) for line in document]
    sources, targets = given[:sentences], given[sentences : 2 * sentences]
    read = ParallelCorpus.from_lines([sources], task.source_tokenizer)
    read = replace(read, target=ParallelCorpus.from_lines([targets], task.target_tokenizer).source)
    batch = collate(read, planned_units(model.reading, read), np.arange(1), model.reading)
    places = batch.source.positions[batch.source.layout.sentence_offsets[:-1]].numpy()
    texts = task.target_tokenizer.encode(targets)
    with torch.no_grad():
        expected = model.output(model(batch)).split([len(text) + 1 for text in texts])
    never = [BOS, BRK, MASK]
    allowed = np.setdiff1d(np.arange(expected[0].shape[1]), never)
    state = other.read(task.source_tokenizer.encode(sources), places)
    state |= other.written(texts, places) | {"cache": other.empty(sentences), "sentence": np.arange(sentences)}
    for place in range(max(map(len, texts)) + 1):
        tokens = np.array([[BOS, *text][min(place, len(text))] for text in texts])
        scores, state["cache"] = other.step.run(None, {"token": tokens, **state})
        for row, text in enumerate(texts):
            if place <= len(text):
                found = torch.from_numpy(scores[row, allowed])
                torch.testing.assert_close(found, expected[row][place, allowed], atol=1e-4, rtol=0)
        assert scores[:, never].max() < scores[:, allowed].min()
    assert torch.cat(expected).std() > 0.5


def test_the_documented_example_translates_as_greedy_search(
    exported: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sentence by sentence; the graphs read their own translations."""
    if exported.loaded.model.reading.positions != "unit":
        pytest.skip("the example counts words in their sentence")
    page = (Path(__file__).parents[2] / "docs/reference/conversion.md").read_text(encoding="utf-8")
    code = page.split("### ONNX of a document model")[1].split("```python\n")[1].split("```")[0]
    given, task = '["A first sentence.", "A second one."]', exported.loaded.task
    assert given in code
    monkeypatch.chdir(exported.folder.parent)
    sources = [line for document in small_system.text(9, 8, seed=5) for line in document][:6]
    corpus = ParallelCorpus.from_lines([sources], task.source_tokenizer)
    search, options = GreedyConfig(max_len_a=0, max_len_b=199, min_len=0), GenerationConfig(generator="greedy")
    found = [each.text for each in translate_corpus([exported.loaded.model], task, corpus, options, search)]
    capsys.readouterr()
    exec(code.replace("exported/document", "other").replace(given, repr(sources)), {})
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == found


def test_what_graphs_cannot_express_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arch, settings, said in (
        ("cond_transformer", {"target_context": "summaries"}, "--target-context summaries"),
        ("cond_transformer", {"position": "rope"}, "--position rope"),
        ("cond_transformer", {"attention": "linear", "position": "learned"}, "--attention linear"),
        ("hier_cond_transformer", {}, "hier_cond_transformer"),
    ):
        path = small_system.random_checkpoint(tmp_path / f"{len(said)}.safetensors", arch, **settings)
        assert convert([str(path), str(tmp_path / "out"), "--to", "onnx"]) == 1
        assert said in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_other_toolkits_take_no_document_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = small_system.random_checkpoint(tmp_path / "own.safetensors", "cond_transformer")
    for form, status, said in (("hf-marian", 1, "cond_transformer"), ("docnmt", 2, "--to docnmt")):
        assert convert([str(path), str(tmp_path / "out"), "--to", form]) == status
        assert said in capsys.readouterr().err
