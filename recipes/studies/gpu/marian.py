"""A training step of Hugging Face's Marian, compiled, on the batches of a data folder: what `gpu.py step` is beside.

    python recipes/studies/gpu/marian.py DATA --updates 5 --max-tokens 25000

The same sizes, subwords and batches as `transformer`, padded to the longest sentence of a batch, in bfloat16 with the
fused optimizer. The model is made from its configuration; nothing is downloaded. `--device cpu` tries it out.
"""

from __future__ import annotations

import argparse
import tempfile

import torch
from gpu import Clock, named
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import MarianConfig, MarianMTModel

from docnmt.cli.train import parse
from docnmt.core.batch import IGNORE, TranslationBatch
from docnmt.core.training.start import prepare
from docnmt.core.training.trainer import open_epoch


def padded(batch: TranslationBatch, pad: int) -> dict[str, Tensor]:
    """Source, what the decoder reads, and labels, as (sentences, longest) each."""

    def rows(values: Tensor, offsets: Tensor, fill: int, multiple: int = 8) -> Tensor:
        table = pad_sequence(values.split(offsets.diff().tolist()), batch_first=True, padding_value=fill)
        return torch.nn.functional.pad(table, (0, -table.shape[1] % multiple), value=fill)

    source, target = batch.source, batch.target
    ids = rows(source.tokens, source.layout.sentence_offsets, pad)
    return {
        "input_ids": ids, "attention_mask": (ids != pad).long(),
        "decoder_input_ids": rows(target.tokens, target.layout.sentence_offsets, pad),
        "labels": rows(batch.labels, target.layout.sentence_offsets, IGNORE),
    }  # fmt: skip


def main() -> None:
    """Parse, train a few updates, print the speed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--max-tokens", default="25000")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--eager", action="store_true", help="not compiled")
    options = parser.parse_args()
    device = torch.device(options.device)
    with tempfile.TemporaryDirectory() as folder:
        given = [options.data, "--arch", "transformer_tiny", "--max-tokens", options.max_tokens, "--save-dir", folder]
        run = prepare(parse([*given, "--device", "cpu", "--disable-validation"]))
    epoch = open_epoch(run)
    units = [epoch.plan[n % len(epoch.plan)] for n in range(options.updates)]
    vocabulary = run.model.output.out_features + 1  # type: ignore[union-attr]
    batches = [{k: x.to(device) for k, x in padded(epoch.data.batch(u), vocabulary - 1).items()} for u in units]  # type: ignore[arg-type]
    heads, inner = options.width // 64 or 1, 4 * options.width
    torch.manual_seed(1)
    model = MarianMTModel(
        MarianConfig(
            vocab_size=vocabulary, pad_token_id=vocabulary - 1, decoder_start_token_id=vocabulary - 1, eos_token_id=0,
            d_model=options.width, encoder_layers=options.layers, decoder_layers=options.layers,
            encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=inner, decoder_ffn_dim=inner,
            dropout=0.1, max_position_embeddings=1024, use_cache=False,
        )
    ).to(device)  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled = model if options.eager else torch.compile(model, dynamic=True)

    def several() -> None:
        for batch in batches:
            with torch.autocast(device.type, torch.bfloat16):
                loss = compiled(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    seconds = Clock(device).in_turns({"updates": several}, options.repeats)["updates"]
    subwords = sum(int(epoch.data.sizes[u].sum()) for u in units)
    parameters, how = sum(p.numel() for p in model.parameters()), "eager" if options.eager else "compiled"
    print(f"### Hugging Face's Marian, {how}: {named(device)}\n")
    print(f"- {parameters:,} parameters, {options.updates} updates of {subwords / options.updates:,.0f} subwords: "
          f"{1e3 * seconds / options.updates:,.1f} ms each, {subwords / seconds:,.0f} subwords a second")  # fmt: skip


if __name__ == "__main__":
    main()
