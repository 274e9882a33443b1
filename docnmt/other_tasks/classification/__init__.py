"""Text classification, from tables to labels.

`table` reads labelled texts, `vocabulary` numbers their words, `preprocess` writes the folder that `data` maps and
batches; `model` is the classifier, `task` binds both for training, `scores` judges labels, and `label` is
`docnmt-classify`. All options are in `config`.
"""
