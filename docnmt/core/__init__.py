"""The core of the toolkit: data, models, criteria, optimizers, tasks, training, search and scoring."""
