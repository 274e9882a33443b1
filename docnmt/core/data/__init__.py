"""Data folders: preprocessing, vocabularies, and corpora mapped into memory."""
