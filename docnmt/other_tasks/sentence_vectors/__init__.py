"""Sentence vectors: trained on sentence pairs (task `nli`); `docnmt-embed`, `docnmt-senteval`."""
