"""The optimizer and the learning-rate schedules."""
