"""The study's other tables: accuracy by length, cost, latency, gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from paired import compare
from published import TABLE_2
from results import Results
from tables import interval, markdown, mean_sd

Get = Callable[[dict[str, Any]], float]


def length_table(results: Results) -> str:
    """Accuracy when test texts are cut after so many tokens; empty where all are shorter than the first cut."""
    lengths = sorted(
        {int(cut) for seeds in results.cells.values() for c in seeds.values() for cut in c["accuracy_at_length"]}
    )
    rows = []
    for variant in results.variants:
        known = [c["accuracy_at_length"] for c in results.cells[variant].values()]
        values = [[100 * at[str(cut)] for at in known if str(cut) in at] for cut in lengths]
        rows.append([variant, *(mean_sd(np.array(v)) if v else "–" for v in values)])
    return markdown(["variant", *(f"{length:,} tokens" for length in lengths)], rows) if lengths else ""


def shuffled_table(results: Results) -> str:
    """Accuracy when the test texts' words are shuffled inside windows; empty where that was not measured."""
    windows = list(dict.fromkeys(w for s in results.cells.values() for c in s.values() for w in c["accuracy_shuffled"]))
    if not windows:
        return ""
    rows = []
    for variant in results.variants:
        cells = [c for c in results.cells[variant].values() if set(windows) <= set(c["accuracy_shuffled"])]
        if cells:
            columns = [[c["accuracy"] for c in cells], *([c["accuracy_shuffled"][w] for c in cells] for w in windows)]
            scores = [100 * np.array(column) for column in columns]
            lost = compare(scores[-1], scores[0])
            rows.append([variant, *map(mean_sd, scores), f"{lost.mean:+.2f} {interval(lost.interval)}"])
    names = ["the whole text" if window == "0" else f"windows of {window}" for window in windows]
    return markdown(["variant", "as they are", *names, f"{names[-1]} − as they are, 95 % over seeds"], rows)


def text_length_table(results: Results) -> str:
    """Accuracy by the whole length of the test texts, over all seeds; empty when they all fall into one class."""
    first = next(iter(results.cells[results.variants[0]].values()))["by_text_length"]
    if len(first) < 2:
        return ""
    rows = []
    for variant in results.variants:
        cells = list(results.cells[variant].values())
        right = np.array([[group["right"] for group in cell["by_text_length"]] for cell in cells])
        texts = np.array([group["texts"] for group in cells[0]["by_text_length"]])
        rows.append([variant, *(mean_sd(column) for column in (100 * right / texts).T)])
    return markdown(["variant", *(f"≤ {g['up_to']:,} ({g['texts']:,} texts)" for g in first)], rows)


def curve_table(results: Results) -> str:
    """Validation accuracy after each quarter of the training, and the best; empty where cells did not keep it.

    Where the last quarter still gains, accuracy is that of a training that was too short.
    """
    rows = []
    for variant in results.variants:
        curves = [c["validations"] for c in results.cells[variant].values() if c["validations"]]
        if curves:
            quarters = [[curve[(len(curve) * n - 1) // 4]["accuracy"] for curve in curves] for n in (1, 2, 3, 4)]
            best = [max(point["accuracy"] for point in curve) for curve in curves]
            rows.append([variant, *(mean_sd(100 * np.array(column)) for column in (*quarters, best))])
    return markdown(["variant", "a quarter", "half", "three quarters", "the end", "best"], rows) if rows else ""


def cost_table(results: Results) -> str:
    """Parameters, time and memory of every variant: means over seeds, times those of the seed least disturbed."""
    columns: list[tuple[str, Get, str]] = [
        ("parameters", lambda c: c["parameters"], ",.0f"),
        ("of the fusion", lambda c: c["fusion_parameters"], ",.0f"),
        ("updates", lambda c: c["train_updates"], ",.0f"),
        ("best update", lambda c: c["best_update"], ",.0f"),
        ("processor s", lambda c: c["processor_seconds"], ",.0f"),
        ("peak memory GB", lambda c: c["peak_memory"] / 1e9, ".2f"),
    ]
    least: list[tuple[str, Get, str]] = [
        ("training s, least", lambda c: c["train_seconds"], ",.0f"),
        ("ms an update, least", lambda c: 1000 * c["train_seconds"] / max(c["train_updates"], 1), ",.0f"),
        ("test s, least", lambda c: c["test_seconds"], ",.1f"),
    ]
    rows = [
        [
            v,
            *(format(results.values(v, get).mean(), form) for _, get, form in columns),
            *(format(results.values(v, get).min(), form) for _, get, form in least),
        ]
        for v in results.variants
    ]
    return markdown(["variant", *(name for name, _, _ in (*columns, *least))], rows)


def latency_table(results: Results, latency: dict[str, Any]) -> str:
    """Operators on sinusoidal positions: accuracy and latency (Table 2); what latency.py wrote is `latency`."""
    rows = []
    for operator in results.families().get("sinusoidal", []):
        if operator in latency["whole"]:
            theirs = TABLE_2.get(operator, ("–", "–"))
            both = latency["alone"][operator], latency["whole"][operator]
            times = [f"{middle:.2f} ({low:.2f}–{high:.2f})" for low, middle, high in both]
            rows.append([operator, mean_sd(results.accuracy(f"sinusoidal.{operator}")), *times, *theirs])
    header = ["operator", "accuracy", "alone, ms (10–90 %)", "whole model, ms (10–90 %)"]
    return markdown([*header, "published on ArXiv", "published latency"], rows) if rows else ""


def gate_table(results: Results) -> str:
    """What the gates do on 200 test texts, means over seeds; empty without a gate."""
    rows = []
    for variant in results.variants:
        gates = [cell["gate"] for cell in results.cells[variant].values() if cell["gate"] is not None]
        if gates:
            mean = mean_sd(np.array([gate["mean"] for gate in gates]), 3)
            sd = f"{np.mean([gate['sd'] for gate in gates]):.3f}"
            shares = [f"{100 * np.mean([gate[key] for gate in gates]):.1f} %" for key in ("words", "places")]
            rows.append([variant, mean, sd, *shares])
    header = ["variant", "mean gate", "sd over tokens", "goes with the word", "goes with the position"]
    return markdown(header, rows) if rows else ""
