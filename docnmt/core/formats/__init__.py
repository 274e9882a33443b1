"""File formats of corpora, glossaries and documents in memory, and sentence splitting."""
