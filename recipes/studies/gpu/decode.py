"""How fast untrained models search on a card: beam search of docnmt beside Hugging Face's Marian, all lengths alike.

    python recipes/studies/gpu/decode.py DATA --sentences 1024 --batch 256 --beam 4 --words 24

The first sentences of the validation split. An untrained model does not know when to stop, so every hypothesis is made
to have `--words` subwords: subwords a second then compare searches and nothing else. Both compute in bfloat16; medians
of rounds in turns. Options that are not named here go to docnmt-train, which makes the model (`--arch` …).
`--device cpu` tries it out, in float32.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
import torch
from gpu import Clock, Way, named
from torch import nn

from docnmt.cli.train import parse
from docnmt.core.corpus import ParallelCorpus
from docnmt.core.search.config import BeamSearchConfig, GenerationConfig
from docnmt.core.search.translate import translate_corpus
from docnmt.core.training.run import Run
from docnmt.core.training.start import prepare


def first_sentences(corpus: ParallelCorpus, sentences: int) -> ParallelCorpus:
    """The first documents of a corpus that have so many sentences, or all."""
    number = int((corpus.document_offsets < sentences).sum())
    return corpus.first_documents(number)


def ours(run: Run, corpus: ParallelCorpus, options: argparse.Namespace) -> Way:
    """Beam search of a run's model."""
    model, words = run.model.eval(), options.words
    if options.device != "cpu":
        model.to(torch.bfloat16)
    search = BeamSearchConfig(beam=options.beam, max_len_a=0, max_len_b=words, min_len=words)
    at_once = GenerationConfig(max_tokens=100_000, batch_size=options.batch)
    return lambda: sum(1 for _ in translate_corpus([model], run.task, corpus, at_once, search))  # type: ignore[list-item, arg-type]


def marian(corpus: ParallelCorpus, vocabulary: int, options: argparse.Namespace) -> Way:
    """Beam search of an untrained Marian of the base size; sentences of a batch are of like length."""
    from transformers import MarianConfig, MarianMTModel

    pad, width = vocabulary, 64 if options.device == "cpu" else 512
    sizes = {"encoder_layers": 6, "decoder_layers": 6, "d_model": width, "max_position_embeddings": 1024}
    heads = {f"{side}_attention_heads": width // 64 for side in ("encoder", "decoder")}
    inner = {f"{side}_ffn_dim": 4 * width for side in ("encoder", "decoder")}
    ends = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0}
    model = MarianMTModel(MarianConfig(vocab_size=vocabulary + 1, **sizes, **heads, **inner, **ends))
    kind = torch.float32 if options.device == "cpu" else torch.bfloat16
    model = model.to(options.device, kind).eval()
    tokens, lengths = torch.from_numpy(np.asarray(corpus.source.tokens, np.int64)), np.diff(corpus.source.offsets)
    rows = sorted((row for row in tokens.split(lengths.tolist()) if len(row)), key=len)
    batches = [rows[i : i + options.batch] for i in range(0, len(rows), options.batch)]
    inputs = [nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=pad) for batch in batches]

    def search() -> None:
        for batch in inputs:
            ids = batch.to(options.device)
            model.generate(  # type: ignore[operator]
                input_ids=ids, attention_mask=(ids != pad).long(), num_beams=options.beam, do_sample=False,
                min_new_tokens=options.words, max_new_tokens=options.words,
            )  # fmt: skip

    return search


def main() -> None:
    """Parse, search, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a folder of docnmt-preprocess; docnmt-train's options follow it")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sentences", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=256, help="sentences at once [256]")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--words", type=int, default=24, help="subwords of each hypothesis [24]")
    parser.add_argument("--repeats", type=int, default=3)
    options, training = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        given = [options.data, *training, "--save-dir", folder, "--device", options.device, "--disable-validation"]
        run = prepare(parse(given))
    corpus = first_sentences(run.task.corpus("valid"), options.sentences)  # type: ignore[attr-defined]
    sentences, vocabulary = len(corpus.source_text), run.model.output.out_features  # type: ignore[union-attr]
    ways = {"docnmt": ours(run, corpus, options), "Marian": marian(corpus, int(vocabulary), options)}
    print(f"### Beam search, {options.beam}: {named(torch.device(options.device))}, `{' '.join(training)}`\n")
    print(f"{sentences} sentences, {options.batch} at once, {options.words} subwords each\n")
    print("| | seconds | subwords a second |\n| --- | ---: | ---: |")
    for name, seconds in Clock(torch.device(options.device)).in_turns(ways, options.repeats).items():
        print(f"| {name} | {seconds:,.2f} | {sentences * options.words / seconds:,.0f} |")


if __name__ == "__main__":
    main()
