"""Text classification, from tables of labelled texts to predicted labels.

`labelled_table` reads labelled texts, `text_vocabulary` numbers their words, `classification_folder` writes the folder
that `labelled_texts` maps and batches; `classifier` is the model, `classification_task` binds both for training,
`scores` evaluates labels, and `label` is `docnmt-classify`. All options are in `config`.
"""
