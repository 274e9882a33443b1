"""Updates as CUDA graphs, on batches filled up to one of a few shapes.

batch → `Shape`, `fill` → one copy to memory that stays where it is → the passes of the shape, one graph → losses and
norm to the host → clipping and the optimizer's step, one graph for all shapes. So weights never change by a gradient
that is not finite. A shape is computed launch by launch at its first batch, and recorded at its second.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from docnmt.core.batch import IGNORE, PackedText, TranslationBatch
from docnmt.core.models.architectures import (
    ConcatTransformer,
    CondTransformer,
    DocTransformer,
    HierCondTransformer,
    HierTransformer,
    Transformer,
)
from docnmt.core.models.encoder_decoder import Stack
from docnmt.core.task import Batch
from docnmt.core.training.criterions import CrossEntropy, LabelSmoothedCrossEntropy
from docnmt.core.training.run import Run, say
from docnmt.functional import kernels
from docnmt.layout import BoundedLayout
from docnmt.modules.document_context import ConditionalAttention
from docnmt.modules.positions import MultiLevel
from docnmt.runtime import device as graphs
from docnmt.runtime import jobs as ranks
from docnmt.runtime.device import CudaRecorder, Inbox, Repeated, Uncapturable, power_of_two, seeds_from

#: Shapes of rows in a batch of `--max-tokens`: filling costs half of a step, a thirty-second, on average.
_STEPS = 16
#: Rows are a multiple of this; sentences, and the bound of their length, are a power of two that is no less.
_ROWS, _SENTENCES, _LENGTH = 64, 64, 32


@dataclass(frozen=True)
class Shape:
    """The shape of a filled batch."""

    source: int  # rows
    target: int
    sentences: int  # of each side
    documents: int
    longest: int  # no sentence of either side is longer
    longest_document: int
    most: int  # no document has more sentences
    reach: int  # no position is larger

    @classmethod
    def of(cls, batch: TranslationBatch, step: int) -> Shape:
        """The smallest shape for a batch whose rows are filled up to multiples of `step`."""
        layouts = batch.source.layout, batch.target.layout
        source, target = (layout.sentences for layout in layouts)
        rows = [max(1, -(-side.num_tokens // step)) * step for side in (source, target)]
        longest = power_of_two(max(source.max_length, target.max_length), _LENGTH)
        filled = max(rows[0] - source.num_tokens, rows[1] - target.num_tokens)
        sentences = power_of_two(len(source) - (-filled // longest), _SENTENCES)
        return cls(
            source=rows[0],
            target=rows[1],
            sentences=sentences,
            documents=power_of_two(layouts[0].num_documents + sentences - len(source), _SENTENCES),
            longest=longest,
            longest_document=power_of_two(max(layout.documents.max_length for layout in layouts), longest),
            most=power_of_two(layouts[0].document_sentences.max_length, 1),
            reach=power_of_two(1 + max(*batch.source.highest, *batch.target.highest), longest) - 1,
        )


@dataclass(frozen=True, eq=False)
class FilledBatch:
    """A batch of a shape, which sentences without labels fill up; the host knows the shape only. As `TranslationBatch`,
    but `num_tokens` is a tensor () of the device."""

    source: PackedText
    target: PackedText
    labels: Tensor
    num_tokens: Tensor


def fill(batch: TranslationBatch, shape: Shape) -> list[Tensor]:
    """The arrays of a batch on the host, filled up to a shape, as `filled_batch` takes them."""
    labels = batch.labels.new_full((shape.target,), IGNORE)
    labels[: len(batch.labels)] = batch.labels
    source, target = _filled(batch.source, shape.source, shape), _filled(batch.target, shape.target, shape)
    offsets = batch.source.layout.document_offsets
    more = torch.arange(1, shape.documents - len(offsets) + 2) + offsets[-1]  # what fills up, a sentence each
    documents = torch.cat([offsets, more.clamp(max=shape.sentences)])
    return [*source, *target, documents, labels, torch.tensor(batch.num_tokens)]


def _filled(text: PackedText, rows: int, shape: Shape) -> list[Tensor]:
    """Tokens, offsets and positions; the sentences that fill up are as long as they may be, and at last empty."""
    offsets = text.layout.sentence_offsets
    more = torch.arange(1, shape.sentences - len(offsets) + 2) * shape.longest + len(text.tokens)
    tokens, positions = text.tokens.new_zeros(rows), text.positions.new_zeros(rows, text.positions.shape[1])
    tokens[: len(text.tokens)], positions[: len(text.tokens)] = text.tokens, text.positions
    return [tokens, torch.cat([offsets, more.clamp(max=rows)]), positions]


def filled_batch(arrays: list[Tensor], shape: Shape) -> FilledBatch:
    """The batch of arrays on a device. What layers derive of its layout is computed anew for each call."""
    *texts, documents, labels, number = arrays
    sides = []
    for (tokens, offsets, positions), rows in ((texts[:3], shape.source), (texts[3:], shape.target)):
        layout = BoundedLayout(offsets, documents, rows, shape.longest, shape.longest_document, shape.most)
        sides.append(PackedText(tokens, layout, positions, bound=(shape.reach,) * positions.shape[1]))
    return FilledBatch(sides[0], sides[1], labels, number)


#: Shapes that are kept, those used last. All graphs share the memory of what they compute on the way. It is theirs, so
#: the first batch of another shape, which is computed launch by launch, needs as much beside it.
KEPT = 64
_HAVE_RUN = (Transformer, CondTransformer, HierCondTransformer)
_CAPTURED = (
    Transformer, ConcatTransformer, DocTransformer, HierTransformer, CondTransformer, HierCondTransformer,
)  # fmt: skip


def graphed(run: Run, *, wished: bool) -> GraphedUpdates | None:
    """Return what computes a run's updates as graphs, or None if that cannot be. If they are `wished` by the
    environment, a line says why there are none; else only models that a card `has_run` have them."""
    if (reason := _hindrance(run)) or not (wished or has_run(type(run.model), run.config["model"])):
        if wished:
            say(f"note: DOCNMT_GRAPHS=on: no CUDA graphs, {reason}")
        return None
    if os.environ.get("DOCNMT_KERNELS") is None and (lacking := kernels.lacking()):
        say(f"note: no Triton kernels, {lacking}")
    return GraphedUpdates(run, graphs.CudaRecorder(run.device))


def has_run(model: type[nn.Module], config: object) -> bool:
    """Whether a card has computed updates of such models as graphs: other models are tested on a CPU only."""
    usual = {"target_context": "none", "merge": None, "always_own_sentence": False, "attention": "softmax"}
    as_usual = all(getattr(config, name, value) == value for name, value in usual.items())
    return model in _HAVE_RUN and as_usual and getattr(config, "position", None) in ("sinusoidal", "multi_level")


def _hindrance(run: Run) -> str:
    """Why a run's updates cannot be graphs; an empty string if they can."""
    model, criterion, smoothed = run.model, run.criterion, LabelSmoothedCrossEntropy
    packages = {type(module).__module__.partition(".")[0] for module in model.modules()}
    if not next(model.parameters()).is_cuda:
        return "they need a CUDA card"
    if ranks.world() > 1:
        return "they are for one process"
    if not run.training.bf16:
        return "they need --bf16"
    if type(model) not in _CAPTURED or packages - {"docnmt", "torch"}:
        return "they are for --arch transformer, concat_, doc_, hier_, cond_ and hier_cond_transformer without plug-ins"
    if any(isinstance(module, ConditionalAttention) and module.read_all_updates for module in model.modules()):
        return "they are for selections without --read-all-updates"
    if any(isinstance(module, Stack) and module.checkpoint_activations for module in model.modules()):
        return "they are for passes without --checkpoint-activations"
    if type(criterion) not in (smoothed, CrossEntropy) or (isinstance(criterion, smoothed) and criterion.r_drop):
        return "they are for cross-entropy without --r-drop"
    return ""


class GraphedUpdates:
    """The updates of a run; gradients stay in the same memory, which is 0 between two updates. `norm` is of the
    gradient of all batches since the last step, on the device."""

    norm: Tensor

    def __init__(self, run: Run, recorder: CudaRecorder) -> None:
        self._run, self._recorder = run, recorder
        self._parameters = [parameter for parameter in run.model.parameters() if parameter.requires_grad]
        self._gradients = [torch.zeros_like(parameter) for parameter in self._parameters]
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        levels = sum(len(module.higher) for module in run.model.modules() if isinstance(module, MultiLevel))
        drops = sum(isinstance(module, nn.Dropout) for module in run.model.modules())
        self._seeds = drops + 2 * levels  # as many as are drawn, at most
        self._row_step = -(-run.training.max_tokens // (_STEPS * _ROWS)) * _ROWS
        self._passes: OrderedDict[Shape, tuple[Inbox, Repeated]] = OrderedDict()
        self._tables: dict[int, Tensor] = {}  # the model replaces tables by longer ones, and graphs read the earlier
        self._sums = torch.zeros(2 + len(run.criterion.metrics), dtype=torch.float64, device=run.device)
        self._numbers = Inbox([torch.zeros(1 + len(run.optimizer.param_groups))], run.device)
        self._step = Repeated(recorder, self._change_weights)

    def forward_backward(self, batch: Batch) -> dict[str, float | Tensor] | None:
        """Add the gradient of a batch's summed loss; return the sums to log, or None if this cannot be done."""
        assert isinstance(batch, TranslationBatch)
        shape = Shape.of(batch, self._row_step)
        generator = torch.Generator().manual_seed(torch.initial_seed())  # what the kernels draw without graphs
        arrays = [*fill(batch, shape), torch.randint(1 << 31, (self._seeds,), generator=generator)]
        if shape not in self._passes:
            inbox = Inbox(arrays, self._run.device)
            self._passes[shape] = inbox, Repeated(self._recorder, partial(self._both_passes, shape, inbox.parts))
            if len(self._passes) > KEPT:
                self._passes.popitem(last=False)
        self._passes.move_to_end(shape)
        inbox, passes = self._passes[shape]
        inbox.send(arrays)
        if not self._tried(passes):
            return None
        self._tables |= {id(table): table for table in self._run.model.buffers()}
        loss, *logs, self.norm = self._sums.clone().unbind()  # the next batch overwrites them
        numbers: dict[str, float | Tensor] = {"loss": loss, "size": batch.num_tokens, "tokens": batch.num_tokens}
        return numbers | dict(zip(self._run.criterion.metrics, logs, strict=True))

    def step(self, factor: float) -> bool:
        """Multiply the gradient by a number, update the weights, reset the gradient; False if this cannot be done."""
        rates = (group["lr"] for group in self._run.optimizer.param_groups)
        self._numbers.send([torch.tensor([factor, *rates])])
        return self._tried(self._step)

    def _tried(self, call: Callable[[], None]) -> bool:
        """Whether it could be called; otherwise the run goes on without graphs, and a line says why."""
        try:
            call()
        except Uncapturable as reason:
            say(f"note: no CUDA graphs, {reason}")
            self._run.graphs = None
            self._passes.clear()  # graphs, and the memory that they share
            del self._step
            torch.manual_seed(torch.initial_seed())  # the batch begins anew
            return False
        return True

    def _both_passes(self, shape: Shape, parts: list[Tensor]) -> None:
        *arrays, seeds = parts
        try:
            with seeds_from(seeds), kernels.used():
                loss, logs = self._run.loss_of(filled_batch(arrays, shape))
            torch._foreach_add_(self._gradients, torch.autograd.grad(loss, self._parameters))  # needs no more memory
        except torch.cuda.OutOfMemoryError as error:
            raise Uncapturable("there is no memory for them beside a batch; a smaller --max-tokens has it") from error
        sums = [loss, *(logs[name] for name in self._run.criterion.metrics), get_total_norm(self._gradients)]
        self._sums.copy_(torch.stack([value.detach().double() for value in sums if isinstance(value, Tensor)]))

    def _change_weights(self) -> None:
        factor, *rates = self._numbers.parts[0].unbind()
        torch._foreach_mul_(self._gradients, factor)
        groups = self._run.optimizer.param_groups
        before = [group["lr"] for group in groups]
        for group, rate in zip(groups, rates, strict=True):
            group.update(lr=rate, capturable=True)
        self._run.optimizer.step()
        for group, rate in zip(groups, before, strict=True):
            group.update(lr=rate, capturable=False)
        torch._foreach_zero_(self._gradients)
