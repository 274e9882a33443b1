"""Training: the loop, updates, validation, checkpoints and the folder of a run."""
