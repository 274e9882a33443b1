"""Documents of many kinds as segments of text, and the same documents with other text."""
