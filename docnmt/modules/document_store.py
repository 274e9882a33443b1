"""The input of context attention: a document's words, sentence summaries, the tree over them, and their projections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from docnmt.functional import SentenceTree
from docnmt.functional.select_blocks import many_sentences
from docnmt.functional.selection import Keys, SelectionPolicy
from docnmt.functional.sentence_blocks import SentenceBlocks
from docnmt.layout import DocumentLayout


@dataclass(frozen=True, eq=False)
class DocumentStore:
    """The states to attend to: words (T, d), a summary of each sentence (S, d), and the tree over these, or None."""

    words: Tensor
    layout: DocumentLayout
    summaries: Tensor
    tree: SentenceTree | None


@dataclass(frozen=True, eq=False)
class ContextKeys:
    """A store projected by one attention block: keys and values (T, h, d_h), relevance keys of sentences or nodes.

    `cumulative`: with a tree, sums of the nodes' keys along its paths. `blocks`: of sentences, if they were made.
    """

    layout: DocumentLayout
    keys: Tensor
    values: Tensor
    relevance: Tensor | None = None
    tree: SentenceTree | None = None
    cumulative: Tensor | None = None
    blocks: SentenceBlocks | None = None

    def stored(self, policy: SelectionPolicy | None) -> ContextKeys:
        """Return contiguous keys and values for decoding, which reads them at every step, and blocks if used."""
        keys = replace(self, keys=self.keys.contiguous(), values=self.values.contiguous())
        if policy is not None and policy.by_blocks and many_sentences(self.layout, policy.top_t).any():
            return replace(keys, blocks=SentenceBlocks.of(keys.selectable().precise().sentences, self.layout))
        return keys

    @classmethod
    def joined(cls, parts: Sequence[ContextKeys], policy: SelectionPolicy | None) -> ContextKeys:
        """The documents of all parts in one, in their order, as `stored`. Parts must have no tree."""
        relevance = [part.relevance for part in parts if part.relevance is not None]
        return cls(
            DocumentLayout.joined([part.layout for part in parts]),
            torch.cat([part.keys for part in parts]),
            torch.cat([part.values for part in parts]),
            torch.cat(relevance) if relevance else None,
        ).stored(policy)

    def selectable(self) -> Keys:
        """Return the keys in the form that selective attention takes."""
        assert self.relevance is not None, "keys that a SummaryAttention made"
        index = None if self.tree is None else self.tree.index
        return Keys(self.keys, self.values, self.relevance, self.layout, index, self.cumulative, self.blocks)
