"""Sentence vectors: trained on sentence pairs (task `nli`), written and searched, evaluated by transfer.

Data: `pairs` reads tables of pairs, `words` tokenises, `vector_files` reads word vectors and `embeddings` makes one
vocabulary of several; `preprocess` writes the folder that `data` maps and batches.
Model: `inferlite` and `encoders` make a vector of a sentence, `hashing` a code of a vector, and `model` puts a
classifier of the pair behind them; `task` binds model and data for training.
Use: `encoder` loads a checkpoint and encodes text; `embed` is `docnmt-embed`, with `lines` of text in, `search` for
the nearest rows, `bit_report` on codes and `gates` as pictures; `summaries` takes vectors from a translation model;
`senteval` is `docnmt-senteval`. All options are in `config`.
"""
