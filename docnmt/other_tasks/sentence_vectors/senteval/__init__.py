"""SentEval's transfer tasks by its protocol (Conneau and Kiela, "SentEval: An Evaluation Toolkit for Universal
Sentence Representations", 2018).

`transfer_tasks` is `docnmt-senteval`: for each task that a results file lacks, `evaluate` reads the sentences
(`corpora`), encodes them by a model or one of `baselines`, and evaluates by `folds` or `relatedness`, both on
`softmax`.
"""
