"""docnmt-convert --to ctranslate2: CTranslate2 translates and scores as docnmt does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import small_system
import torch
from small_system import lines, paired

from docnmt.cli.convert import main as convert
from docnmt.core.batch import collate, planned_units
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.models.config import TransformerConfig
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.tokenizer import BOS, BRK, EOS, MASK
from docnmt.core.training.checkpoint import load_model
from docnmt.core.training.criterions import CrossEntropy
from docnmt.registry import MODELS

ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")

LIMIT = 60
SHAPES: list[dict[str, Any]] = [
    {},
    {"norm": "post", "activation": "swish", "output_bias": True, "encoder_layers": 1, "decoder_layers": 2},
    {"activation": "gelu", "scale_embeddings": False, "share_embeddings": False},
    {"position": "learned", "tie_output": False, "norm": "post"},
    {"position": "rope_input", "separate": True, "share_embeddings": False},
    {"position_fusion": "add"},
    {"position": "multi_level", "scale_embeddings": False, "tie_output": False},
    {"position": "learned", "share_positions": False, "norm_embeddings": True},
]


class Other:
    """A folder as CTranslate2 loads it; subwords are made as its users make them."""

    def __init__(self, folder: Path) -> None:
        sides = ("source", "target")
        self.source, self.target = (
            sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm")) for side in sides
        )
        self.translator = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1)


@pytest.mark.parametrize("settings", [*SHAPES, *({"source_context": 1, "target_window": n} for n in (1, 2))])
def test_scores_are_the_same(tmp_path: Path, settings: dict[str, Any]) -> None:
    """But for the entries that no translation has: CTranslate2's model gives them nothing. In windows of 2 to 1 and of
    2 to 2 sentences `<brk>` is a token as any other."""
    windows = "target_window" in settings
    arch, size = ("concat_transformer", 2) if windows else ("transformer", 1)
    path = small_system.random_checkpoint(tmp_path / "own.safetensors", arch, **settings)
    assert convert([str(path), str(tmp_path / "other"), "--to", "ctranslate2"]) == 0
    loaded, other = load_model(path), Other(tmp_path / "other")
    sources, targets = ([side[n : n + size] for n in range(0, 80, size)] for side in (lines(80, 3), lines(80, 4)))
    model: Any = loaded.model
    read = paired(loaded.task, sources, targets)
    units = planned_units(model.reading, read)
    batch = collate(read, units, np.arange(len(units)), model.reading)
    with torch.no_grad():
        logits = model.output(model(batch))
    error = 2e-5 * float(logits.abs().max())  # float32 on both sides
    logits[:, [BOS, MASK] if windows else [BOS, BRK, MASK]] = -torch.inf
    ours = logits.log_softmax(-1).gather(1, batch.labels[:, None])[:, 0]

    def joined(side: Any, texts: list[str]) -> list[str]:
        first, *rest = [side.encode(text, out_type=str) for text in texts]
        return [*first, *(piece for pieces in rest for piece in ("<brk>", *pieces))]

    pairs = list(zip(sources, targets, strict=True))
    if settings.get("target_window") == 1:  # each sentence behind the one before it
        pairs = [pair for s, t in pairs for pair in ((s[:1], t[:1]), (s, t[1:]))]
    results = other.translator.score_batch(
        [joined(other.source, s) for s, _ in pairs], [joined(other.target, t) for _, t in pairs]
    )
    theirs = torch.tensor([score for result in results for score in result.log_probs])
    torch.testing.assert_close(theirs, ours, atol=error, rtol=0)
    assert ours.std() > 0.5


@pytest.fixture(
    scope="module", params=[{}, {"norm": "post", "activation": "swish", "position_fusion": "add"}], ids=["pre", "post"]
)
def learned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned, in a moment, when texts end, and gives no probability to what is never written."""
    task, options = small_system.task(), {"embed_dim": 32, "heads": 4, "ffn_dim": 64, "dropout": 0.0}
    config = TransformerConfig(encoder_layers=1, decoder_layers=1, output_bias=True, **options, **request.param)
    torch.manual_seed(0)
    model: Any = task.build_model(MODELS.get("transformer"), config)
    texts = lines(600, 3)
    read = paired(task, [[text] for text in texts], [[" ".join(text[:-1].split()[::-1]) + "."] for text in texts])
    units, draw = planned_units(model.reading, read), np.random.default_rng(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(80):
        batch = collate(read, units, draw.permutation(len(units))[:24], model.reading)
        loss, size, _ = CrossEntropy(label_smoothing=0.0)(model, batch)
        optimizer.zero_grad()
        (loss / size).backward()
        optimizer.step()
    with torch.no_grad():
        model.output.bias[[BOS, BRK, MASK]] = -100.0
        model.output.bias[EOS] += 2.0
    folder = tmp_path_factory.mktemp("learned")
    small_system.write(folder / "own.safetensors", model, config, task)
    assert convert([str(folder / "own.safetensors"), str(folder / "other"), "--to", "ctranslate2"]) == 0
    return folder


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_the_same(learned: Path, beam: int) -> None:
    """Of 200 sentences whose translation ends by itself; at the longest length CTranslate2 cuts, docnmt scores `</s>`.

    With a length penalty both stop when as many translations have ended as the beam is wide; without one CTranslate2
    goes on. With a least length CTranslate2 scales up the other entries' probabilities. So it is 1 here, and 0.
    """
    loaded, other = load_model(learned / "own.safetensors"), Other(learned / "other")
    task: Any = loaded.task
    sources = lines(230, 8)
    search = BeamSearchConfig(beam=beam, lenpen=1.0, max_len_a=0, max_len_b=LIMIT, min_len=0)
    given = ParallelCorpus.from_lines([sources], task.source_tokenizer)
    results = list(translate_corpus([loaded.model], task, given, GenerationConfig(), search))
    ended = [n for n, result in enumerate(results) if len(result.nbest[0].pieces) < LIMIT][:200]
    ours = [results[n].nbest[0] for n in ended]
    assert len(ours) == 200
    assert len({own.text for own in ours}) > 50
    theirs = other.translator.translate_batch(
        [other.source.encode(sources[n], out_type=str) for n in ended],
        beam_size=beam, length_penalty=1.0, max_decoding_length=LIMIT, min_decoding_length=0, return_scores=True,
    )  # fmt: skip
    assert [own.text for own in ours] == [other.target.decode(result.hypotheses[0]) for result in theirs]
    assert [own.score for own in ours] == pytest.approx([result.scores[0] for result in theirs], rel=1e-5, abs=1e-4)
