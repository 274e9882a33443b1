"""Explanations of translations: the sentences that models read, and scores without them."""
