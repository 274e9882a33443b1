"""How much of a translation model's input is words and how much positions, after fusion, in encoder and decoder.

    python recipes/studies/fusion_translation/translation_gates.py data-bin --path runs/one/model runs/two/model

An operator's output is a part of the words plus a part of the positions: E and P (add), gE and (1 − g)P (gates), W_E E
and W_P P (concat), aE and bP (scale). `positions` is the mean over tokens of |position part| / (|word part| + |position
part|), in percent; `gate` is g, its mean and its standard deviation over tokens and features. The decoder reads the
references.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from docnmt.apps.commands.translating import check_vocabulary, load_models
from docnmt.apps.options import ModelsConfig
from docnmt.core.batch import collate, planned_units
from docnmt.core.corpus import ParallelCorpus
from docnmt.modules.fusion import Add, Concat, ContentGate, Fusion, Gate, Ignore, Scale
from docnmt.runtime.system import UserError


def parts(fusion: Fusion, e: Tensor, p: Tensor, offsets: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    """The part of the words and that of the positions, (T, d) each, and the gate (T, 1 or d) where there is one."""
    if isinstance(fusion, Gate):
        gate = fusion.gate(e, p, offsets)
        return gate * e, torch.zeros_like(p) if isinstance(fusion, ContentGate) else (1 - gate) * p, gate
    if isinstance(fusion, Concat):
        words, positions = fusion.matrices
        return e @ words.T, p @ positions.T, None
    if isinstance(fusion, Scale):
        return fusion.scales[0] * e, fusion.scales[1] * p, None
    if isinstance(fusion, Ignore):
        return e, torch.zeros_like(p), None
    if type(fusion) is Add:
        return e, p, None
    raise UserError(f"{type(fusion).__name__}: its output is no part of the words plus a part of the positions")


@torch.inference_mode()
def shares(model: nn.Module, corpus: ParallelCorpus, units: int, device: str) -> dict[str, tuple[int, float, Tensor]]:
    """For every fusion by name: tokens, the mean share of positions, and all values of the gate (none without one)."""
    pairs: dict[str, list[tuple[Tensor, Tensor]]] = {}

    def _read(name: str, fusion: Fusion, given: tuple[Tensor, ...]) -> None:
        words, positions, gate = parts(fusion, *given)
        lengths = words.norm(dim=-1), positions.norm(dim=-1)
        share = (lengths[1] / (lengths[0] + lengths[1]).clamp(min=1e-30)).flatten()
        pairs.setdefault(name, []).append((share.cpu(), torch.empty(0) if gate is None else gate.flatten().cpu()))

    for name, module in model.named_modules():
        if isinstance(module, Fusion):
            module.register_forward_pre_hook(lambda module, given, name=name: _read(name, module, given))
    plan = planned_units(model.reading, corpus)  # type: ignore[arg-type]  # a plan, as every translation model has
    for unit in np.linspace(0, len(plan) - 1, min(units, len(plan))).astype(int):
        model(collate(corpus, plan, np.array([unit]), model.reading).to(device))  # type: ignore[arg-type]
    joined = {name: [torch.cat(column) for column in zip(*rows, strict=True)] for name, rows in pairs.items()}
    return {name: (len(share), float(share.mean()), gate) for name, (share, gate) in joined.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA", help="folder written by docnmt-preprocess")
    parser.add_argument("--path", nargs="+", required=True, metavar="CKPT", help="checkpoint files, or --save-dirs")
    parser.add_argument("--gen-subset", default="valid", metavar="NAME", help="split [valid]")
    parser.add_argument("--units", type=int, default=50, metavar="N", help="documents to read, from everywhere [50]")
    parser.add_argument("--device", default="auto", help="cpu, cuda … [auto]")
    options = parser.parse_args(arguments)
    if options.units < 1:
        parser.error(f"--units: expected at least 1, got {options.units}")
    print("| model | fusion | tokens | positions, % | gate |\n| --- | --- | ---: | ---: | ---: |")
    try:
        for path in options.path:
            loaded = load_models(ModelsConfig(path=path, device=options.device))
            check_vocabulary(loaded, options.data)
            model, corpus = loaded.models[0], ParallelCorpus.open(options.data, options.gen_subset)
            by_fusion = shares(model, corpus, options.units, str(model.output.weight.device))
            for name, (tokens, share, gate) in by_fusion.items():
                shown = f"{gate.mean():.3f} ± {gate.std():.3f}" if len(gate) else "–"
                print(f"| {path} | {name} | {tokens:,} | {100 * share:.1f} | {shown} |")
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
