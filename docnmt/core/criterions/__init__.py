"""Training losses: cross-entropy of tokens and of labels."""
