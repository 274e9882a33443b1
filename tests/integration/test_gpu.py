"""What only a card can say of the kernels and of training under `--bf16`. All tests that need one: `pytest -m gpu`.

Others with the same mark stand beside what they repeat on a card: attention in float64, search, resuming, a model that
has been learned by heart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from parallel_text import ParallelText
from torch import Tensor
from toy import log
from varlen_emulation import CASES

from docnmt.cli import train
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.training.checkpoint import load_model
from docnmt.functional import conditional_attention, kernels
from docnmt.functional.conditional import select
from docnmt.functional.dispatch import suits_varlen, varlen_attention
from docnmt.functional.packed import packed_attention, takes_varlen
from docnmt.functional.selection import Keys, Queries, SelectionPolicy
from docnmt.layout import DocumentLayout
from docnmt.runtime.device import CudaRecorder

pytestmark = pytest.mark.gpu
DEVICE = "cuda"

#: Empty sentences and documents, sentences of one word and of more than a block, more and fewer than are kept.
LAYOUT = DocumentLayout.from_lengths([[3, 0, 5, 1, 2], [300, 20, 7], [0], [], [2, 2, 6, 1, 1, 1], [30] * 40])
#: Of the largest number: bfloat16 has 8 bits, and a gradient is a sum of rounded ones.
ROUNDING = 0.03


def drawn(layout: DocumentLayout, heads: int = 4, width: int = 64, seed: int = 0) -> list[Tensor]:
    """Queries, keys, values, queries and keys of sentences, in bfloat16 on the card."""
    random = torch.Generator().manual_seed(seed)
    rows = (layout.num_tokens,) * 4 + (layout.num_sentences,)
    drawn = [torch.randn(n, heads, width, generator=random).bfloat16().to(DEVICE) for n in rows]
    return [x.requires_grad_() for x in drawn]


def assert_near(computed: list[Tensor], exact: list[Tensor]) -> None:
    for one, other in zip(computed, exact, strict=True):
        assert torch.isfinite(one).all()
        assert float((one.double() - other.double()).abs().max()) <= ROUNDING * float(other.abs().max().clamp(min=1e-6))


def passes(function: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    """The output and the inputs' gradients, for the same numbers as the output's gradient in every type."""
    out = function(*inputs)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(0)).bfloat16()
    return [out.detach(), *torch.autograd.grad(out, inputs, grad.to(out))]


def exactly(inputs: list[Tensor]) -> list[Tensor]:
    """The same numbers in float64."""
    return [x.detach().double().requires_grad_() for x in inputs]


@pytest.mark.parametrize("visible", ["document", "earlier"])
@pytest.mark.parametrize("t", [1, 3, 50])
@pytest.mark.parametrize("width", [32, 64, 128])
def test_conditional_attention_gives_the_equation_and_its_gradients(width: int, t: int, visible: str) -> None:
    there, inputs = LAYOUT.to(DEVICE), drawn(LAYOUT, width=width)
    assert takes_varlen(*inputs[:3])

    def attend(*x: Tensor, backend: str = "auto") -> Tensor:
        return conditional_attention(
            *x, query_layout=there, key_layout=there, top_t=t, visible=visible, backend=backend
        )

    def equation(*x: Tensor) -> Tensor:
        return attend(*x, backend="dense")

    # both choose among float32 and float64 relevances of the same numbers
    computed = passes(attend, inputs)
    assert_near(computed, passes(equation, exactly(inputs)))
    again = passes(attend, inputs)
    assert torch.equal(computed[0], again[0])


@pytest.mark.parametrize("causal", [False, True])
def test_sentences_give_the_equation_and_its_gradients(causal: bool) -> None:
    there, (q, k, v, *_) = LAYOUT.to(DEVICE), drawn(LAYOUT)

    def attend(*x: Tensor) -> Tensor:
        return packed_attention(*x, there.sentences, there.sentences, causal=causal)

    computed = passes(attend, [q, k, v])
    assert_near(computed, passes(attend, exactly([q, k, v])))


def test_what_follows_the_choice_does_not_wait_for_the_card() -> None:
    """Forward and backward; torch raises at the first synchronisation."""
    there, inputs = LAYOUT.to(DEVICE), drawn(LAYOUT)
    q, k, v, sentence_q, sentence_k = inputs
    asked, read = Queries(q, sentence_q.float(), there), Keys(k, v, sentence_k.float(), there)
    selection = select(asked, read, SelectionPolicy(3))
    assert suits_varlen(asked, read, selection)
    grad = torch.ones_like(q)

    def once() -> None:
        torch.autograd.grad(varlen_attention(asked, read, selection), inputs, grad)
        torch.autograd.grad(packed_attention(q, k, v, there.sentences, there.sentences), inputs[:3], grad)

    once()
    torch.cuda.set_sync_debug_mode("error")
    try:
        once()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> ParallelText:
    parallel = ParallelText(tmp_path_factory.mktemp("gpu"))
    assert parallel.preprocess("--vocab-size", "80") == 0
    return parallel


@pytest.mark.parametrize("case", CASES)
def test_every_architecture_trains_in_bfloat16_and_translates_as_on_a_cpu(
    case: str, text: ParallelText, tmp_path: Path
) -> None:
    name, options = CASES[case]
    given = [f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}") for key, value in options.items()]
    sizes = "--embed-dim 64 --heads 2 --ffn-dim 64 --encoder-layers 1 --decoder-layers 1 --max-tokens 300"
    updates = "--bf16 --max-update 40 --lr 0.005 --warmup-updates 5 --log-interval 1"
    command = [str(text.data), "--arch", name, *given, *f"{sizes} {updates} --device {DEVICE}".split()]
    assert train.main([*command, "--save-dir", str(tmp_path)]) == 0
    losses = [line["loss"] for line in log(tmp_path, ["train"])]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    loaded = load_model(tmp_path)
    search, settings = BeamSearchConfig(beam=2), GenerationConfig()
    scores = []
    for device in ("cpu", DEVICE):
        model = loaded.model.eval().to(device)
        results = translate_corpus([model], loaded.task, text.corpus("valid"), settings, search)
        scores.append([result.nbest[0].score for result in results])
    assert scores[1] == pytest.approx(scores[0], abs=1e-3)


@pytest.mark.parametrize("with_kernels", [False, True])
def test_graphs_compute_what_is_computed_launch_by_launch(
    with_kernels: bool, text: ParallelText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout; the same losses also in a run that was interrupted, and without dropout as without graphs."""
    if with_kernels:
        pytest.importorskip("triton")
    monkeypatch.setattr(kernels, "_switched_on", lambda: with_kernels)
    recorded: list[Callable[[], None]] = []
    record = CudaRecorder.record

    def counted(self: CudaRecorder, body: Callable[[], None]) -> Callable[[], None]:
        recorded.append(body)
        return record(self, body)

    def losses(name: str, graphs: str, updates: int = 30, dropout: str = "0.1") -> list[float]:
        monkeypatch.setenv("DOCNMT_GRAPHS", graphs)
        sizes = "--embed-dim 64 --heads 2 --ffn-dim 64 --encoder-layers 2 --decoder-layers 2 --max-tokens 300"
        more = f"--bf16 --lr 0.005 --warmup-updates 5 --log-interval 1 --dropout {dropout} --max-update {updates}"
        command = [str(text.data), "--arch", "transformer", *f"{sizes} {more} --device {DEVICE}".split()]
        assert train.main([*command, "--disable-validation", "--save-dir", str(tmp_path / name)]) == 0
        return [line["loss"] for line in log(tmp_path / name, ["train"])]

    monkeypatch.setattr(CudaRecorder, "record", counted)
    with_graphs = losses("graphs", "on")
    assert len(recorded) >= 2  # of one shape at least, and of the step
    losses("parts", "on", updates=11)
    assert losses("parts", "on") == pytest.approx(with_graphs, rel=1e-3)
    dry = losses("dry", "on", dropout="0")
    assert losses("none", "off", dropout="0") == pytest.approx(dry, rel=1e-2)
    monkeypatch.setattr(CudaRecorder, "record", lambda self, body: partial(self.run, body))
    assert losses("launches", "on") == pytest.approx(with_graphs, rel=1e-3)


@pytest.mark.parametrize("arch", ["transformer", "concat_transformer", "doc_transformer"])
def test_graphs_of_decoding_find_what_is_found_without_them(
    arch: str, text: ParallelText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32 and in bfloat16; several times, so that recorded steps meet other texts."""
    pytest.importorskip("triton")
    sizes = "--embed-dim 64 --heads 2 --ffn-dim 64 --encoder-layers 2 --decoder-layers 2 --max-tokens 300"
    updates = f"--bf16 --max-update 60 --lr 0.005 --warmup-updates 5 --device {DEVICE} --disable-validation"
    assert train.main([str(text.data), "--arch", arch, *f"{sizes} {updates} --save-dir {tmp_path}".split()]) == 0
    recorded: list[Callable[[], None]] = []
    record = CudaRecorder.record
    monkeypatch.setattr(CudaRecorder, "record", lambda self, body: recorded.append(body) or record(self, body))
    loaded = load_model(tmp_path)
    search, settings = BeamSearchConfig(beam=4), GenerationConfig(batch_size=12)
    for kind, error in ((torch.float32, 1e-3), (torch.bfloat16, 0.1)):
        model, scores = loaded.model.eval().to(DEVICE, kind), []
        for graphs in ("off", "on"):
            monkeypatch.setenv("DOCNMT_GRAPHS", graphs)
            results = translate_corpus([model], loaded.task, text.corpus("train"), settings, search)
            scores.append([result.nbest[0].score for result in results])
        assert scores[1] == pytest.approx(scores[0], abs=error)
    assert len(recorded) >= 4
