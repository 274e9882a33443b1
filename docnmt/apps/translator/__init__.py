"""Trained models as a library: texts in, translations out, the same as from the commands."""
