"""Alignment of the sentences of a document with those of its translation."""
