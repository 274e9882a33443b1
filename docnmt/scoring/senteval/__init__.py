"""SentEval's transfer evaluation of sentence vectors (Conneau & Kiela 2018), protocol for protocol, on CPU."""
