"""Tasks: the interface of training to data, models and evaluation, and document translation."""
