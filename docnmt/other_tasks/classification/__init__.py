"""Text classification: tables of labelled texts → a data folder → a trained classifier → labels."""
