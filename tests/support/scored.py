"""Random references, a damaged copy of them, and their files."""

import random

import numpy as np

WORDS = ["the", "a", "cat", "dog", "house", "tree", "sees", "likes", "finds", "big", "small", "red", ",", ".", "!"]


def corpus(seed, sentences=40, documents=8):
    """Random sentences, a noisy copy of them, and document offsets; the copy misses a sentence."""
    rng = random.Random(seed)
    reference = [" ".join(rng.choices(WORDS, k=rng.randint(3, 12))) for _ in range(sentences)]
    hypothesis = [" ".join(w if rng.random() > 0.2 else rng.choice(WORDS) for w in s.split()) for s in reference]
    hypothesis[3] = ""
    return hypothesis, reference, np.array([0, *sorted(rng.sample(range(1, sentences), documents - 1)), sentences])


def write(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode())
    return [tmp_path / name for name in files]
