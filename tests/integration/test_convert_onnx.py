"""docnmt-convert --to onnx: the graphs in onnxruntime score and translate, token by token, as docnmt does."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
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

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
for needed in ("onnx", "onnxscript"):
    pytest.importorskip(needed, reason="needs docnmt[onnx]")

#: Options of models.
SHAPES: list[dict[str, Any]] = [
    {"norm": "post", "activation": "swish", "output_bias": True, "encoder_layers": 1, "decoder_layers": 2},
    {"position": "learned", "tie_output": False, "share_positions": False, "norm_embeddings": True},
    {"position": "multi_level", "position_fusion": "gate_scalar", "separate": True, "share_embeddings": False,
     "activation": "gelu", "scale_embeddings": False, "encoder_layers": 1},
    {"arch": "concat_transformer", "source_context": 1, "target_window": 2},
]  # fmt: skip


def lines(number: int, seed: int) -> list[str]:
    return [line for document in small_system.text(number, 8, seed=seed) for line in document][:number]


class Other:
    """A folder in onnxruntime."""

    def __init__(self, folder: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.encoder, self.step = (
            onnxruntime.InferenceSession(str(folder / name), options) for name in ("encoder.onnx", "step.onnx")
        )

    def begin(self, sources: list[list[int]]) -> dict[str, np.ndarray]:
        """What a step reads besides the token, before the first one; texts are padded with 0."""
        length = max(map(len, sources)) + 1
        source = np.array([[*text, EOS, *[0] * (length - len(text) - 1)] for text in sources])
        mask = np.array([[n <= len(text) for n in range(length)] for text in sources])
        (memory,) = self.encoder.run(None, {"source": source, "mask": mask})
        cache = np.zeros((*memory.shape[:4], 0, memory.shape[5]), np.float32)
        return {"memory": memory, "mask": mask, "cache": cache}

    def advance(self, tokens: list[int], state: dict[str, np.ndarray]) -> np.ndarray:
        """Scores (B, V) of the next token."""
        scores, state["cache"] = self.step.run(None, {"token": np.array(tokens), **state})
        return np.asarray(scores)


@dataclass
class System:
    """A model, its graphs, and how many sentences it translates together."""

    loaded: Any
    folder: Path
    window: int

    @property
    def other(self) -> Other:
        """The graphs in onnxruntime."""
        return Other(self.folder)

    def windows(self, seed: int) -> list[list[str]]:
        """Twelve texts."""
        texts = lines(12 * self.window, seed)
        return [texts[n : n + self.window] for n in range(0, len(texts), self.window)]


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> System:
    settings, folder = {"arch": "transformer", **request.param}, tmp_path_factory.mktemp("system")
    path = small_system.random_checkpoint(folder / "own.safetensors", settings.pop("arch"), **settings)
    logging.disable(logging.DEBUG)  # of which the exporter writes much, and pytest would keep it
    assert convert([str(path), str(folder / "other"), "--to", "onnx"]) == 0
    logging.disable(logging.NOTSET)
    return System(load_model(path), folder / "other", settings.get("target_window", 1))


def joined(tokenizer: Any, windows: list[list[str]]) -> list[list[int]]:
    """The subwords of each window, with `<brk>` between its sentences."""
    return [[token for ids in tokenizer.encode(window) for token in [BRK, *ids]][1:] for window in windows]


def test_logits_are_the_same_at_every_token(system: System) -> None:
    """In batches with padding, and of one text alone."""
    sources, targets, task, model = system.windows(3), system.windows(4), system.loaded.task, system.loaded.model
    read = ParallelCorpus.from_lines(sources, task.source_tokenizer)
    read = replace(read, target=ParallelCorpus.from_lines(targets, task.target_tokenizer).source)
    units = planned_units(model.reading, read)
    batch = collate(read, units, np.arange(len(units)), model.reading)
    texts = [[BOS, *text] for text in joined(task.target_tokenizer, targets)]
    with torch.no_grad():
        expected = model.output(model(batch)).split([len(text) for text in texts])
    never = [BOS, MASK] if system.window > 1 else [BOS, BRK, MASK]
    allowed = np.setdiff1d(np.arange(expected[0].shape[1]), never)
    other, given = system.other, joined(task.source_tokenizer, sources)
    for chosen in (range(11), [11]):
        state = other.begin([given[n] for n in chosen])
        for place in range(max(len(texts[n]) for n in chosen)):
            scores = other.advance([texts[n][min(place, len(texts[n]) - 1)] for n in chosen], state)
            for row, n in enumerate(chosen):
                if place < len(texts[n]):
                    found = torch.from_numpy(scores[row, allowed])
                    torch.testing.assert_close(found, expected[n][place, allowed], atol=1e-4, rtol=0)
        assert scores[:, never].max() < scores[:, allowed].min()
    assert torch.cat(expected).std() > 0.5


def example() -> str:
    """The Python of the reference's chapter on ONNX."""
    page = (Path(__file__).parents[2] / "docs/reference/conversion.md").read_text(encoding="utf-8")
    return page.split("onnxruntime alone")[1].split("```python\n")[1].split("```")[0]


def test_the_documented_example_translates_as_greedy_search(
    system: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In windows of several sentences docnmt has the last word on their number, so these are only run."""
    search, options = GreedyConfig(max_len_a=0, max_len_b=199, min_len=0), GenerationConfig(generator="greedy")
    code, given, task = example(), '["A sentence."]', system.loaded.task
    assert given in code
    monkeypatch.chdir(system.folder.parent)
    written = []
    for window in system.windows(5)[:6]:
        corpus = ParallelCorpus.from_lines([window], task.source_tokenizer)
        found = [each.text for each in translate_corpus([system.loaded.model], task, corpus, options, search)]
        capsys.readouterr()
        exec(code.replace("exported/onnx", "other").replace(given, repr(window)), {})
        written.append(capsys.readouterr().out.strip("\n"))
        assert system.window > 1 or written[-1].strip() == found[0]
    assert system.loaded.model_config.norm == "pre" or len(set(written)) > 1  # some random models write nothing


def test_what_graphs_cannot_express_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arch, settings, said in (
        ("transformer", {"position": "alibi"}, "--position alibi"),
        ("hier_transformer", {}, "hier_transformer"),
    ):
        path = small_system.random_checkpoint(tmp_path / f"{arch}.safetensors", arch, **settings)
        assert convert([str(path), str(tmp_path / "out"), "--to", "onnx"]) == 1
        assert said in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
