"""Sentence vectors and binary codes of text, and the nearest of them."""
