"""Sentence vectors: trained on sentence pairs (task `nli`), written and searched, evaluated by transfer.

Data: `pairs` reads tables of pairs, `treebank_words` tokenizes, `vector_files` reads word vectors and `embeddings`
makes one vocabulary of several; `nli_folder` writes the folder that `sentence_batches` maps and batches.
Model: `inferlite` and `encoders` compute a sentence's vector, `hashing` a code of a vector, and `pair_classifier` adds
a classifier of the pair; `nli_task` binds model and data for training.
Use: `encoder` loads a checkpoint and encodes text; `write_vectors` is `docnmt-embed`, with `line_reader` for its input,
`nearest_rows` for its search, `bit_report` on codes and `gates` for pictures; `translation_summaries` takes vectors
from a translation model; `senteval` is `docnmt-senteval`. All options are in `config`.
"""
