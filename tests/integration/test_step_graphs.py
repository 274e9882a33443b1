"""Steps of decoding as CUDA graphs, on a device that computes on the CPU and pretends to be a GPU."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from docnmt.cli.train import parse
from docnmt.core.models.encoder_decoder import AnyTranslationModel, DecoderState, EncoderDecoder
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import Translation, translate_corpus
from docnmt.core.tokenizer import EOS
from docnmt.core.training import graphed as step_graphs
from docnmt.core.training.graphed import StepGraphs
from docnmt.core.training.start import prepare
from docnmt.core.translation_task import DocumentTranslation

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes" / "gpu"))

import host_syncs
import pretended

pytestmark = [
    pytest.mark.skipif(not pretended.available(), reason="this torch cannot be given devices from Python"),
    pytest.mark.skipif(not pretended.interprets(), reason="needs triton and its interpreter (TRITON_INTERPRET=1)"),
]
if pretended.available():
    pretended.make_known()  # here, before any test of this process has made gradients
SIZES = "--embed-dim 16 --heads 1 --ffn-dim 16 --encoder-layers 1 --decoder-layers 1 --output-bias"
SEARCH = BeamSearchConfig(beam=2, max_len_a=0.5, max_len_b=1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return host_syncs.prepare(tmp_path_factory.mktemp("graphs"), [3, 1, 4, 5, 2, 3, 30])


class Searches:
    """Searches with one model of random weights, on the CPU and as graphs."""

    def __init__(self, data: Path, folder: Path, options: str) -> None:
        given = [str(data), *f"{SIZES} {options} --device cpu --disable-validation".split(), "--save-dir", str(folder)]
        torch.manual_seed(1)
        run = prepare(parse(given))
        assert isinstance(run.task, DocumentTranslation)
        self.task, self.model = run.task, run.model.eval()
        with torch.no_grad():
            self.model.get_parameter("output.bias")[EOS] = 1.0  # or no text would end before its limit
        self.recorders: list[pretended.PretendedRecorder] = []

    def as_graphs(self, monkeypatch: pytest.MonkeyPatch) -> list[Translation]:
        with on_card(self.model, monkeypatch) as self.recorders:
            return self.on_cpu()

    def on_cpu(self) -> list[Translation]:
        """All translations of all sentences."""
        model: AnyTranslationModel = self.model  # type: ignore[assignment]
        options = GenerationConfig(max_tokens=40, batch_size=4)
        found = translate_corpus([model], self.task, self.task.corpus("valid"), options, SEARCH)
        return [translation for sentence in found for translation in sentence.nbest]


@contextmanager
def on_card(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[pretended.PretendedRecorder]]:
    """Inside, the model is on the device, and its steps are to be graphs; all recorders."""
    recorders: list[pretended.PretendedRecorder] = []
    monkeypatch.setenv("DOCNMT_GRAPHS", "on")
    with pretended.pretended():
        made = pretended.PretendedRecorder
        monkeypatch.setattr(
            pretended.graphs, "CudaRecorder", lambda device: recorders.append(made(device)) or recorders[-1]
        )
        model.to(pretended.NAME)
        yield recorders


def assert_alike(ours: list[Translation], theirs: list[Translation]) -> None:
    assert [each.pieces for each in ours] == [each.pieces for each in theirs]
    assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        "--arch transformer_tiny",
        pytest.param("--arch concat_transformer_tiny", marks=pytest.mark.slow),
        pytest.param("--arch transformer_tiny --norm post --activation gelu", marks=pytest.mark.slow),
    ],
)
def test_a_search_by_graphs_finds_the_same(
    options: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts enter and leave, rows branch off and die, tables grow and give up places."""
    monkeypatch.setattr(step_graphs, "_TOKENS", 2)
    searches = Searches(data, tmp_path, options)
    theirs = searches.on_cpu()
    assert len({len(each.pieces) for each in theirs}) >= 3
    assert_alike(searches.as_graphs(monkeypatch), theirs)
    assert len(searches.recorders[0].recordings) >= 3


def test_a_graph_that_cannot_be_recorded_costs_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    searches = Searches(data, tmp_path, "--arch transformer_tiny")
    theirs, record, recorded = searches.on_cpu(), pretended.PretendedRecorder.record, []

    def second_fails(self: pretended.PretendedRecorder, body: Callable[[], None]) -> Callable[[], None]:
        recorded.append(body)
        if len(recorded) == 2:
            raise RuntimeError("no memory")
        return record(self, body)

    monkeypatch.setattr(pretended.PretendedRecorder, "record", second_fails)
    assert_alike(searches.as_graphs(monkeypatch), theirs)
    assert len(recorded) == 2  # and no more
    assert capfd.readouterr().err.count("no memory") == 1


def test_states_may_take_turns(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps of one text, then of another, and so on: as if each were alone."""
    searches = Searches(data, tmp_path, "--arch transformer_tiny")
    model = searches.model
    assert isinstance(model, EncoderDecoder)
    batch = searches.task.dataset("train", model).batch(np.arange(1))
    tokens = torch.randint(5, 50, (12, 6), generator=torch.Generator().manual_seed(0))

    @torch.inference_mode()
    def scores(step: Callable[[Tensor, DecoderState], Tensor], device: str, turns: list[int]) -> list[Tensor]:
        memory = model.encode(batch.source.to(device))
        states = [model.begin(memory, torch.tensor([n, 0]).to(device), 3) for n in (0, 0)]
        return [step(own.to(device), states[turn]).to("cpu").clone() for turn, own in zip(turns, tokens, strict=True)]

    turns = [0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 1]
    theirs = scores(model.step, "cpu", turns)
    with on_card(model, monkeypatch):
        ours = scores(
            StepGraphs(model, pretended.graphs.CudaRecorder(torch.device(pretended.NAME))), pretended.NAME, turns
        )
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


class OnCard:
    """A model on the device, and what begins and reads there."""

    def __init__(self, searches: Searches) -> None:
        assert isinstance(searches.model, EncoderDecoder)
        self.model, batch = searches.model, searches.task.dataset("train", searches.model).batch(np.arange(1))
        self.memory = self.model.encode(batch.source.to(pretended.NAME))
        self.graphs = StepGraphs(self.model, pretended.graphs.CudaRecorder(torch.device(pretended.NAME)))

    def begin(self, rows: int) -> DecoderState:
        return self.model.begin(self.memory, torch.zeros(rows, dtype=torch.int64).to(pretended.NAME), 1)

    def read(self, step: Callable[[Tensor, DecoderState], Tensor], state: DecoderState) -> Tensor:
        """The scores of the rows after one more token."""
        return step(torch.full((len(state.lengths),), 7).to(pretended.NAME), state).to("cpu").clone()


@pytest.fixture
def card(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OnCard]:
    searches = Searches(data, tmp_path, "--arch transformer_tiny")
    with on_card(searches.model, monkeypatch), torch.inference_mode():
        yield OnCard(searches)


def test_rows_that_become_more_and_more_seldom_move_what_graphs_read(card: OnCard) -> None:
    places = set()
    for rows in range(8, 65, 8):
        card.read(card.graphs, card.begin(rows))
        places.add(card.graphs._places.shape[0])
    assert len(places) <= 4


def test_all_memory_goes_with_the_last_reference(card: OnCard) -> None:
    state = card.begin(3)
    for _ in range(3):
        card.read(card.graphs, state)
    left = weakref.ref(card.graphs)
    gc.disable()
    try:
        del card.graphs
        assert left() is None
    finally:
        gc.enable()


def test_a_step_without_memory_leaves_nothing_wrong(card: OnCard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next text is read as if nothing had been."""
    small = card.begin(2)
    for _ in range(3):
        card.read(card.graphs, small)
    new_zeros, numbers = Tensor.new_zeros, step_graphs._COLUMNS

    def no_room(self: Tensor, *sizes: int, **kwargs: object) -> Tensor:
        if sizes[1:] == (numbers,):
            raise torch.OutOfMemoryError("no memory")
        return new_zeros(self, *sizes, **kwargs)  # type: ignore[call-overload,no-any-return]

    large = card.begin(20)
    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "new_zeros", no_room)
        with pytest.raises(torch.OutOfMemoryError):
            card.read(card.graphs, large)
    for rows in (2, 20):
        ours, theirs, step = card.begin(rows), card.begin(rows), card.model.step
        for _ in range(3):
            expected = card.read(step, theirs)
            torch.testing.assert_close(card.read(card.graphs, ours), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    ["--arch cond_transformer_tiny", "--arch copy_transformer_tiny", "--position rope", "--attention linear"],
)
def test_what_cannot_be_captured_is_searched_without(
    options: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Searches(data, tmp_path, f"--arch transformer_tiny {options}").model
    with on_card(model, monkeypatch) as recorders:
        assert step_graphs.decoding_hindrance(model)
        assert step_graphs.graphed_step(model) is None
    assert not recorders
