"""An epoch of classifier training: packed rows against a padded `nn.TransformerEncoder`.

Usage: classification.py --texts 64 --batch 8 [--mean 2000 --cut 4096] [--arch fusion_classifier_arxiv]

Texts have log-normal lengths (mean 2,000 tokens, σ 0.8 before the cut at 4,096). Both sides have the same weights,
which is checked on the logits first, the same optimizer, and no dropout inside attention and feed-forward blocks. The
padded side is measured as in the notebooks of Hallam and Tseng (every text padded to the cut) and padded to the longest
text of its batch. The three take turns batch by batch on the same texts.
"""

from __future__ import annotations

import argparse
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.modules.positions import sinusoids
from docnmt.other_tasks.classification import FusionClassifier, LabelledArrays, TextDataset
from docnmt.other_tasks.options import FusionClassifierConfig
from docnmt.registry import ARCHITECTURES
from docnmt.runtime.device import tune

VOCABULARY, LABELS = 20_000, 11


class PaddedClassifier(nn.Module):
    """The notebooks' model: padding, key padding mask, masked mean; weights copied from ours."""

    def __init__(self, ours: Any, config: FusionClassifierConfig, longest: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            config.embed_dim, config.heads, config.ffn_dim, config.dropout, config.activation, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, config.encoder_layers, enable_nested_tensor=False)
        self.embedding = nn.Embedding.from_pretrained(ours.embedding.tokens.weight.detach().clone(), freeze=False)
        self.output = nn.Linear(config.embed_dim, LABELS)
        self.output.load_state_dict(ours.output.state_dict())
        self.register_buffer("positions", sinusoids(longest, config.embed_dim).float())
        for mine, theirs in zip(ours.layers, self.encoder.layers, strict=True):
            copy_layer(mine, theirs)
            theirs.self_attn.dropout = theirs.dropout.p = 0.0  # inside attention and feed-forward block: ours has none

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        padding = torch.arange(tokens.shape[1]) >= lengths[:, None]
        scaled = self.embedding(tokens) * self.embedding.embedding_dim**0.5
        h = self.encoder(scaled + self.get_buffer("positions")[: tokens.shape[1]], src_key_padding_mask=padding)
        pooled = (h * ~padding[..., None]).sum(1) / lengths[:, None]
        logits: Tensor = self.output(pooled)
        return logits


def copy_layer(ours: Any, theirs: Any) -> None:
    """The weights of one encoder layer."""
    pairs = {
        "self_attn.in_proj_weight": ours.attention.qkv.weight, "self_attn.in_proj_bias": ours.attention.qkv.bias,
        "self_attn.out_proj.weight": ours.attention.output.weight,
        "self_attn.out_proj.bias": ours.attention.output.bias,
        "linear1.weight": ours.feed_forward.inner.weight, "linear1.bias": ours.feed_forward.inner.bias,
        "linear2.weight": ours.feed_forward.output.weight, "linear2.bias": ours.feed_forward.output.bias,
    }  # fmt: skip
    for name, weight in pairs.items():
        theirs.get_parameter(name).data.copy_(weight)


def random_texts(count: int, mean: float, cut: int, sigma: float = 0.8) -> LabelledArrays:
    """Texts of random tokens with log-normal lengths."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, size=count).astype(int), 1, cut)
    texts = [[rng.integers(VOCABULARY, size=length).tolist()] for length in lengths]
    return LabelledArrays.from_texts(texts, rng.integers(LABELS, size=count).tolist(), VOCABULARY)


def padded(data: TextDataset, units: np.ndarray, width: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (B, L), lengths (B,), labels (B,) of some texts; L is `width` or the longest length."""
    batch = data.batch(units)
    lengths = torch.from_numpy(data.lengths[units])
    rows = batch.text.tokens.split(lengths.tolist())
    longest = width or int(lengths.max())
    return torch.stack([nn.functional.pad(row, (0, longest - len(row))) for row in rows]), lengths, batch.labels


class Side:
    """One way to train, and its seconds: by the clock, and of the processor (steadier on a busy machine)."""

    def __init__(self, model: nn.Module, inputs: Any) -> None:
        self.model, self.inputs, self.seconds, self.processor = model, inputs, 0.0, 0.0
        self.optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)

    def update(self, units: np.ndarray) -> None:
        """One update, data to optimizer, on the clock."""
        started, processor = time.perf_counter(), time.process_time()
        *arguments, labels = self.inputs(units)
        loss = nn.functional.cross_entropy(self.model(*arguments), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.seconds += time.perf_counter() - started
        self.processor += time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--arch", default="fusion_classifier_arxiv", help="[fusion_classifier_arxiv]")
    for name, default in (("texts", 64), ("batch", 8), ("mean", 2000), ("cut", 4096)):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"[{default}]")
    options = parser.parse_args()
    if min(vars(options)[name] for name in ("batch", "mean", "cut")) < 1 or options.texts < 2 * options.batch:
        parser.error("expected numbers above 0, and texts for two batches: the first is warm-up")
    print(tune())
    torch.manual_seed(0)
    config = FusionClassifierConfig(**ARCHITECTURES.get(options.arch).overrides())
    ours = FusionClassifier.build(config, SimpleNamespace(vocabulary_size=VOCABULARY, labels=("",) * LABELS))
    data = TextDataset(random_texts(options.texts, options.mean, options.cut), None, "document", "random")

    def packed(units: np.ndarray) -> tuple[Any, Tensor]:
        batch = data.batch(units)
        return batch, batch.labels

    stock = [PaddedClassifier(ours, config, options.cut) for _ in range(2)]
    shortest = np.argsort(data.lengths)[:2]
    tokens, lengths, _ = padded(data, shortest, None)
    with torch.no_grad():
        difference = (ours.eval()(packed(shortest)[0]) - stock[0].eval()(tokens, lengths)).abs().max().item()
    assert difference < 1e-4, f"the two models differ by {difference}"
    sides = {
        "packed": Side(ours.train(), packed),
        "padded to the batch's longest": Side(stock[0].train(), lambda units: padded(data, units, None)),
        "padded to the cut (notebooks)": Side(stock[1].train(), lambda units: padded(data, units, options.cut)),
    }
    order = np.random.default_rng(1).permutation(options.texts)
    for number, units in enumerate(np.array_split(order, max(1, options.texts // options.batch))):
        for side in sides.values():
            side.update(units)
        if number == 0:  # warm-up
            for side in sides.values():
                side.seconds = side.processor = 0.0
    base = sides["packed"]
    print(f"{options.arch}: {options.texts} texts, mean {data.lengths.mean():,.0f} tokens, batches of {options.batch}")
    for name, side in sides.items():
        clock, processor = side.seconds / base.seconds, side.processor / base.processor
        print(f"{name:32s} {side.seconds:8.1f} s {clock:6.2f}x   processor {side.processor:8.1f} s {processor:6.2f}x")


if __name__ == "__main__":
    main()
