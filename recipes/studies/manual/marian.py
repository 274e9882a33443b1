"""The yardstick of recipes/studies/manual: Hugging Face's Marian model and its Seq2SeqTrainer on the same subwords.

    python recipes/studies/manual/marian.py runs/manual/data-bin --minutes 64 --out runs/manual/marian

Same arrays, vocabulary, size (3 layers of width 256, tied embeddings), label smoothing, dropout, subwords an update
and bf16 as `transformer_small` there; the learning rate falls as a cosine over the given minutes of processor time. It
prints the nats a subword of the development text (without smoothing) and writes translations of the test texts. It
needs transformers, accelerate and sentencepiece.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import (
    MarianConfig,
    MarianMTModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    set_seed,
)

from docnmt.core.corpus import ParallelCorpus

END, PAD = 2, 8000
WARMUP = 500


class TokenBatches(Dataset[dict[str, Tensor]]):
    """Sentence pairs of like lengths, so many that source or target has at most `max_tokens` subwords."""

    def __init__(self, corpus: ParallelCorpus, max_tokens: int) -> None:
        assert corpus.target is not None
        self.corpus, self.batches = corpus, list(self._planned(corpus, max_tokens))

    @staticmethod
    def _planned(corpus: ParallelCorpus, max_tokens: int) -> Iterator[np.ndarray]:
        assert corpus.target is not None
        source, target = corpus.source.lengths() + 1, corpus.target.lengths() + 1
        order, batch, total = np.lexsort([source, target]), [], np.zeros(2, dtype=np.int64)
        for number in order:
            cost = np.array([source[number], target[number]])
            if batch and (total + cost).max() > max_tokens:
                yield np.array(batch)
                batch, total = [], np.zeros(2, dtype=np.int64)
            batch.append(number)
            total += cost
        yield np.array(batch)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        assert self.corpus.target is not None
        numbers = self.batches[index]
        source = padded([self.corpus.source[number] for number in numbers], PAD)
        labels = padded([self.corpus.target[number] for number in numbers], -100)
        begin, earlier = torch.full((len(numbers), 1), PAD), labels[:, :-1]
        read = torch.cat([begin, earlier.masked_fill(earlier < 0, PAD)], dim=1)
        return {
            "input_ids": source, "attention_mask": (source != PAD).long(), "labels": labels, "decoder_input_ids": read
        }  # fmt: skip


def padded(sentences: list[np.ndarray], fill: int) -> Tensor:
    """(S, longest + 1): each sentence and `</s>`."""
    rows = torch.full((len(sentences), max(map(len, sentences)) + 1), fill)
    for row, sentence in zip(rows, sentences, strict=True):
        row[: len(sentence)] = torch.from_numpy(sentence.astype(np.int64))
        row[len(sentence)] = END
    return rows


class ProcessorTime(TrainerCallback):  # type: ignore[misc]
    """Warm-up by updates, then a cosine over the processor time that is given; ends training with it."""

    def __init__(self, minutes: float, peak: float) -> None:
        self.seconds, self.peak = minutes * 60, peak
        self.begin = time.process_time()

    def rate(self, update: int) -> float:
        """The learning rate of an update that begins now."""
        done = min(1.0, (time.process_time() - self.begin) / self.seconds)
        return self.peak * min(1.0, (update + 1) / WARMUP) * (1 + math.cos(math.pi * done)) / 2

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **more: Any) -> None:
        control.should_training_stop = time.process_time() - self.begin >= self.seconds


def scheduled(model: MarianMTModel, clock: ProcessorTime) -> tuple[torch.optim.Optimizer, Any]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, betas=(0.9, 0.98), weight_decay=0.0)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, clock.rate)


@torch.inference_mode()
def nats(model: MarianMTModel, batches: TokenBatches) -> float:
    """Nats a subword, `</s>` included."""
    total, count = 0.0, 0
    for number in range(len(batches)):
        batch = batches[number]
        logits = model(**batch).logits.float()
        labels = batch["labels"]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        total, count = total + loss.item(), count + int((labels != -100).sum())
    return total / count


@torch.inference_mode()
def translated(model: MarianMTModel, corpus: ParallelCorpus, beam: int) -> Iterator[list[int]]:
    """Each sentence's translation, in order."""
    order = np.argsort(corpus.source.lengths(), kind="stable")
    translations: dict[int, list[int]] = {}
    for begin in range(0, len(order), 64):
        numbers = order[begin : begin + 64]
        source = padded([corpus.source[number] for number in numbers], PAD)
        longest = int(2 * source.shape[1] + 10)
        out = model.generate(
            input_ids=source, attention_mask=(source != PAD).long(), num_beams=beam, max_length=longest, do_sample=False
        )
        for number, row in zip(numbers.tolist(), out.tolist(), strict=True):
            translations[number] = [token for token in row if token not in (END, PAD)]
    yield from (translations[number] for number in range(len(order)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="docnmt-preprocess's folder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True, help="of processor time")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--max-tokens", type=int, default=3000)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--splits", nargs="+", default=["test"], help="that are translated [test]")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    set_seed(args.seed)
    train, valid, *tests = (ParallelCorpus.open(args.data, split) for split in ("train", "valid", *args.splits))
    config = MarianConfig(
        vocab_size=8001, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024, dropout=0.2, attention_dropout=0.0,
        activation_function="relu", scale_embedding=True, max_position_embeddings=1024, pad_token_id=PAD,
        eos_token_id=END, decoder_start_token_id=PAD, forced_eos_token_id=None, share_encoder_decoder_embeddings=True,
    )  # fmt: skip
    model = MarianMTModel(config)
    model.generation_config.bad_words_ids = [[PAD]]
    print(f"{model.num_parameters():,} parameters", flush=True)
    clock = ProcessorTime(args.minutes, args.lr)
    trainer = Seq2SeqTrainer(
        model=model, train_dataset=TokenBatches(train, args.max_tokens), data_collator=lambda batches: batches[0],
        optimizers=scheduled(model, clock), callbacks=[clock],
        args=Seq2SeqTrainingArguments(
            output_dir=str(args.out), per_device_train_batch_size=1, num_train_epochs=1000, bf16=True, use_cpu=True,
            label_smoothing_factor=0.1, max_grad_norm=1.0, logging_steps=100, save_strategy="no", report_to=[],
            seed=args.seed, disable_tqdm=True, dataloader_pin_memory=False,
        ),
    )  # fmt: skip
    trainer.train()
    updates, spent = trainer.state.global_step, (time.process_time() - clock.begin) / 60
    model = trainer.model.eval()
    trainer.save_model(str(args.out))
    print(f"{updates:,} updates in {spent:.1f} minutes of processor time", flush=True)
    print(f"dev nll {nats(model, TokenBatches(valid, args.max_tokens)):.4f}", flush=True)
    subwords = sentencepiece.SentencePieceProcessor(model_file=str(args.data / "tokenizer.model"))
    for split, test in zip(args.splits, tests, strict=True):
        lines = [subwords.decode(tokens) for tokens in translated(model, test, args.beam)]
        ends = {int(end) for end in test.document_offsets[1:-1]}
        text = "".join(f"{line}\n" + "\n" * (number in ends) for number, line in enumerate(lines, 1))
        (args.out / split).mkdir(exist_ok=True)
        (args.out / split / "hypotheses.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
