"""Batches: the units of a corpus, their division into batches, noise, and packed tensors."""
