"""Search: beam search, sampling, forced scoring, and the scheduler that shares it among jobs."""
