"""Sentence vectors: trained on sentence pairs (task `nli`), written by `docnmt-embed`, evaluated by `docnmt-senteval`."""
