"""Evaluation: metrics, significance tests, and tests of discourse."""
