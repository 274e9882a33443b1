"""The baseline: TF-IDF of words and word pairs with a linear SVM, on the tables that the study trains on.

    python recipes/studies/fusion_matters/baseline.py tables/novels33 --max-length 1024 --output runs/novels33/svm.json

The SVM's C and whether word pairs are used are chosen by accuracy on the validation part, between equals by hinge loss
there. The test accuracy of the other settings is kept, too: where validation texts are easy (novels33: other passages
of the same novels), the choice is hardly one.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

try:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.metrics import hinge_loss
    from sklearn.svm import LinearSVC
except ImportError:
    sys.exit("baseline.py: error: needs scikit-learn; pip install -e '.[evaluation]'")

from docnmt.cli import command as cli
from docnmt.other_tasks.classification import classification_scores, read_labelled, tokenise
from docnmt.runtime.system import UsageError, write_json

COSTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


def read(folder: Path, split: str, max_length: int | None) -> tuple[list[list[str]], list[str]]:
    """Tokenised texts, cut at `max_length` words as the classifier's are, and labels."""
    rows = read_labelled(folder / f"{split}.jsonl")
    return [tokenise(text)[:max_length] for text in rows.texts], rows.labels


def baseline(folder: Path, max_length: int | None) -> dict[str, Any]:
    """Scores on the test part of the setting that is best on the validation part, and every setting's accuracies."""
    (train_x, train_y), (valid_x, valid_y) = read(folder, "train", max_length), read(folder, "valid", max_length)
    test_x, test_y = read(folder, "test", max_length)
    settings: list[dict[str, float]] = []
    predictions = []
    for n in (1, 2):
        vectorizer = TfidfVectorizer(analyzer=lambda w, n=n: grams(w, n), min_df=2, sublinear_tf=True)
        features = vectorizer.fit_transform(train_x)
        valid, test = vectorizer.transform(valid_x), vectorizer.transform(test_x)
        for cost in COSTS:
            model = LinearSVC(C=cost, random_state=0).fit(features, train_y)
            accuracy = float((model.predict(valid) == np.array(valid_y)).mean())
            loss = float(hinge_loss(valid_y, model.decision_function(valid), labels=model.classes_))
            predictions.append(model.predict(test))
            right = float((predictions[-1] == np.array(test_y)).mean())
            settings.append(
                {"grams": n, "cost": cost, "valid_accuracy": accuracy, "valid_loss": loss, "accuracy": right}
            )
            print(f"{'words' if n == 1 else 'words and pairs'}, C {cost}: validation {100 * accuracy:.2f}", flush=True)
    best = max(range(len(settings)), key=lambda i: (settings[i]["valid_accuracy"], -settings[i]["valid_loss"]))
    labels = sorted(set(train_y))
    truth, predicted = (np.array([labels.index(y) for y in names]) for names in (test_y, predictions[best]))
    return {
        **settings[best], "max_length": max_length, **classification_scores(truth, predicted, labels).to_dict(),
        "correct": "".join("01"[int(right)] for right in predicted == truth), "settings": settings,
    }  # fmt: skip


def grams(words: list[str], n: int) -> list[str]:
    """All runs of 1 to n words."""
    return [" ".join(words[i : i + k]) for k in range(1, n + 1) for i in range(len(words) - k + 1)]


def body(argv: list[str]) -> None:
    """Parse, choose, test."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0], epilog="example: baseline.py tables/novels33 --max-length 1024"
    )
    parser.add_argument("tables", type=Path, metavar="FOLDER", help="train.jsonl, valid.jsonl and test.jsonl")
    parser.add_argument("--max-length", type=int, default=None, metavar="N", help="words of a text that are read [all]")
    parser.add_argument("--output", type=Path, default=None, metavar="FILE.json", help="write the scores there, too")
    options = parser.parse_args(argv)
    if options.max_length is not None and options.max_length < 1:
        raise UsageError(f"--max-length: must be at least 1, got {options.max_length}")
    started = time.perf_counter()
    result = baseline(options.tables, options.max_length)
    result["seconds"] = time.perf_counter() - started
    others = [100 * setting["accuracy"] for setting in result["settings"]]
    print(
        f"test accuracy {100 * result['accuracy']:.2f} (all settings {min(others):.2f} to {max(others):.2f}), macro-F1 "
        f"{100 * result['macro_f1']:.2f}"
    )
    if options.output is not None:
        write_json(options.output, result)


if __name__ == "__main__":
    sys.exit(cli.run("baseline.py", body))
