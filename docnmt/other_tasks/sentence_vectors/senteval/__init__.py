"""SentEval's transfer tasks (Conneau and Kiela, "SentEval: An Evaluation Toolkit for Universal Sentence
Representations", 2018) by its protocol.

`transfer` is `docnmt-senteval`: for each task that a results file lacks, `evaluate` reads the sentences (`corpora`),
has them encoded (a model, or one of `baselines`) and measures: by `classification` or `relatedness`, both on `softmax`.
"""
