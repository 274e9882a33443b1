"""docnmt-convert --to onnx: the graphs score and translate, token by token, as docnmt does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_forms
import pytest
import small_system
import torch
from small_system import lines, paired

from docnmt.cli.convert import main as convert
from docnmt.core.batch import collate, planned_units
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.search.config import GenerationConfig, GreedyConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.tokenizer import BOS, BRK, EOS, MASK
from docnmt.core.training.checkpoint import load_model

for needed in ("onnxruntime", "onnx", "onnxscript"):
    pytest.importorskip(needed, reason="needs docnmt[convert]")

#: Options of models.
SHAPES: list[dict[str, Any]] = [
    {"norm": "post", "activation": "swish", "output_bias": True, "encoder_layers": 1, "decoder_layers": 2},
    {"position": "learned", "tie_output": False, "share_positions": False, "norm_embeddings": True},
    {"position": "multi_level", "position_fusion": "gate_scalar", "separate": True, "share_embeddings": False,
     "activation": "gelu", "scale_embeddings": False, "encoder_layers": 1},
    {"arch": "concat_transformer", "source_context": 1, "target_window": 2},
]  # fmt: skip
#: The one with several layers of the decoder is always written as files.
EXPORTED = [pytest.param(shape, marks=() if "output_bias" in shape else pytest.mark.slow) for shape in SHAPES]


class Other:
    """The graphs."""

    def __init__(self, graphs: dict[str, Any]) -> None:
        self.encoder, self.step = graphs["encoder"], graphs["step"]

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
    other: Other

    def windows(self, seed: int) -> list[list[str]]:
        """Twelve texts."""
        texts = lines(12 * self.window, seed)
        return [texts[n : n + self.window] for n in range(0, len(texts), self.window)]


def made(settings: dict[str, Any], folder: Path, form: Callable[[Path, Path], dict[str, Any]]) -> System:
    """A model with random weights."""
    settings = {"arch": "transformer", **settings}
    path = small_system.random_checkpoint(folder / "own.safetensors", settings.pop("arch"), **settings)
    graphs = form(path, folder / "other")
    return System(load_model(path), folder / "other", settings.get("target_window", 1), Other(graphs))


in_torch = onnx_forms.systems(made, SHAPES, onnx_forms.in_torch)
exported = onnx_forms.systems(made, EXPORTED, onnx_forms.in_files)


def joined(tokenizer: Any, windows: list[list[str]]) -> list[list[int]]:
    """The subwords of each window, with `<brk>` between its sentences."""
    return [[token for ids in tokenizer.encode(window) for token in [BRK, *ids]][1:] for window in windows]


def test_the_graphs_have_the_same_logits_at_every_token(in_torch: System) -> None:
    assert_logits(in_torch)


def test_their_files_have_the_same_logits_at_every_token(exported: System) -> None:
    assert_logits(exported)


def assert_logits(system: System) -> None:
    """In batches with padding, and of one text alone."""
    sources, targets, task, model = system.windows(3), system.windows(4), system.loaded.task, system.loaded.model
    read = paired(task, sources, targets)
    units = planned_units(model.reading, read)
    batch = collate(read, units, np.arange(len(units)), model.reading)
    texts = [[BOS, *text] for text in joined(task.target_tokenizer, targets)]
    with torch.no_grad():
        expected = model.output(model(batch)).split([len(text) for text in texts])
    error = 2e-5 * float(torch.cat(expected).abs().max())  # float32 on both sides
    never = [BOS, MASK] if system.window > 1 else [BOS, BRK, MASK]
    allowed = np.setdiff1d(np.arange(expected[0].shape[1]), never)
    other, given = system.other, joined(task.source_tokenizer, sources)
    for chosen in (range(11), [11]):
        state = other.begin([given[n] for n in chosen])
        for step in range(max(len(texts[n]) for n in chosen)):
            scores = other.advance([texts[n][min(step, len(texts[n]) - 1)] for n in chosen], state)
            for row, n in enumerate(chosen):
                if step < len(texts[n]):
                    theirs = torch.from_numpy(scores[row, allowed])
                    torch.testing.assert_close(theirs, expected[n][step, allowed], atol=error, rtol=0)
        assert scores[:, never].max() < scores[:, allowed].min()
    assert torch.cat(expected).std() > 0.5


def example() -> str:
    """The Python of the reference's chapter on ONNX."""
    page = (Path(__file__).parents[2] / "docs/reference/conversion.md").read_text(encoding="utf-8")
    return page.split("onnxruntime alone")[1].split("```python\n")[1].split("```")[0]


def test_the_documented_example_translates_as_greedy_search(
    exported: System, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In windows of several sentences docnmt has the last word on their number, so these are only run."""
    search, options = GreedyConfig(max_len_a=0, max_len_b=199, min_len=0), GenerationConfig(generator="greedy")
    code, given, task = example(), '["A sentence."]', exported.loaded.task
    assert given in code
    monkeypatch.chdir(exported.folder.parent)
    written = []
    for window in exported.windows(5)[:6]:
        corpus = ParallelCorpus.from_lines([window], task.source_tokenizer)
        texts = [result.text for result in translate_corpus([exported.loaded.model], task, corpus, options, search)]
        capsys.readouterr()
        exec(code.replace("exported/onnx", "other").replace(given, repr(window)), {})
        written.append(capsys.readouterr().out.strip("\n"))
        assert exported.window > 1 or written[-1].strip() == texts[0]
    assert exported.loaded.model_config.norm == "pre" or len(set(written)) > 1  # some random models write nothing


def test_what_graphs_cannot_express_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arch, settings, said in (
        ("transformer", {"position": "alibi"}, "--position alibi"),
        ("hier_transformer", {}, "hier_transformer"),
    ):
        path = small_system.random_checkpoint(tmp_path / f"{arch}.safetensors", arch, **settings)
        assert convert([str(path), str(tmp_path / "out"), "--to", "onnx"]) == 1
        assert said in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
