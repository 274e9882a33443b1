"""BLEU of a model on a corpus: what training watches, by the code that `docnmt-generate` runs."""
