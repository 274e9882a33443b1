"""The cost model: every tuning constant by which equally exact ways to compute the papers' equations are chosen.

None of them says what is computed: another value takes other time or memory, and moves last bits. Where a line gives
two ratios, they are the processor time with half and with double the value to the time with it, on one thread of a
shared Xeon (medians of 5 in turns; two runs differed by up to 0.2, so only larger differences say anything):

    OMP_NUM_THREADS=1 python tools/bench/costs.py

`CARD_…` and `FLASH_…` are read on GPUs only. Their speed was not compared with other values; docs/results/scale.md has
what was measured on one. Values that bound memory have their bytes instead. What changes the sentences that are kept is
no cost and stands where it is used (`select_blocks`, `sentence_blocks`).
"""

from __future__ import annotations

import numpy as np

# --- Conditional attention: all scores of padded documents, or a dispatch by sentence (`select_and_attend`)

#: Words of a document up to which all scores are computed faster than some are chosen. 0.99, 1.00 at 160 words.
PADDED_WORDS = 128
#: Pairs of a query and a word up to which planning a dispatch takes longer than all scores. 0.96, 0.99 at 9,216 pairs.
PADDED_FEW = 1 << 13
#: Pairs of a query and a word that are held in memory at once, at most: 64 MB a head and tensor in float32.
PADDED_MOST = 1 << 24
#: Cost of a (query, kept sentence) pair in a dispatch, in scores of padded documents. 1.02, 1.03 at 360 words.
DISPATCH_QUERY = 22.0
#: Cost of a (query, word of a kept sentence) pair there, likewise. 0.99, 0.97 at 600 words.
DISPATCH_WORD = 1.7
#: Longest document of a padded group over its shortest, at most, ones of up to `PADDED_SHORT` words aside.
PADDED_SPREAD = 1.5
PADDED_SHORT = 48

# --- Tiles of a dispatch (`dispatch_plan`); measured on 3,200 words in 128 sentences

#: Queries of a tile, at most. 1.13, 1.07.
TILE = 128
#: Word scores computed at a time: 0.5 MB in float32, which stay in the cache. 1.19, 1.03.
TILE_BATCH = 1 << 17
#: Word scores whose computation takes as long as beginning a batch. 0.99, 1.02.
TILE_BATCH_BEGIN = 1 << 13
#: Assignments planned at a time; their partial results take 16 MB at width 64. 0.99, 1.01 on 12,800 words.
TILE_ASSIGNMENTS = 1 << 16
#: Words to which sentences of a batch are padded: at most a quarter of it is padding.
TILE_LENGTHS = np.array([1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, *2 ** np.arange(8, 63)])
#: The same on a GPU, where calls on few numbers take as long as on many: queries of a tile, at least and at most …
CARD_TILE_LEAST, CARD_TILE_MOST = 16, 128
#: … word scores at a time, 64 MB in float32 …
CARD_TILE_BATCH = 1 << 24
#: … assignments at a time, whose partial results take 256 MB at width 64 …
CARD_ASSIGNMENTS = 1 << 20
#: … and words to which sentences are padded: at most a third is padding.
CARD_LENGTHS = np.array([4, 6, *np.outer(2 ** np.arange(3, 60), [2, 3]).ravel() // 2])
#: Queries of a sequence of flash attention, at most (`varlen_plan`).
FLASH_TILE = 512

# --- Selection of sentences; measured for 1,024 words

#: Relevances of all sentences held at a time on a CPU: 4 MB in float32, in its caches. 1.16, 1.04 among 1,024.
SELECT_CHUNK = 1 << 20
#: Relevances, dots or products held at a time on a GPU: 128 MB in float32.
CARD_CHUNK = 1 << 25
#: Queries side by side, at least: fewer heads at a time rather than shorter rows. 1.02, 1.04 among 1,024.
SELECT_ROWS = 480
#: Relevances up to which documents are taken together, other documents' sentences included. 0.90, 1.05 in 64 documents.
SELECT_JOINT = 1 << 18
#: Products of single features at a time on a CPU: their indices stay in the cache. 1.00, 1.08 among 4,096.
BLOCK_PRODUCTS = 1 << 16
#: Nodes of a tree's level above which single keys are gathered. 1.02, 1.01 among 512.
TREE_WIDE = 128
#: Relevances of a tree's upper levels held at a time on a CPU: 16 MB in float32. 1.19, 0.99 among 1,024.
TREE_CHUNK = 1 << 22
#: Floats of gathered keys at a time on a CPU: 1 MB, in its cache. 1.03, 0.95 among 1,024.
TREE_DOTS = 1 << 18

# --- Softmax attention between spans (`packed`, `buckets`)

#: Queries × keys of a span from which a CPU computes it without keeping the scores. 0.99, 0.32 in spans of 128 words:
#: with double the value they are kept, which was three times as fast there, and 1.6 times at 400 words.
SPAN_FUSED = 128 * 128
#: Queries × keys above which a span is computed alone and keeps no scores, 1 MB a head in float32. 1.01, 1.03 at 512
#: words.
SPAN_LONG = 512 * 512
#: Queries × keys that a block of queries of a long span holds: 4 MB a head in float32. 1.03, 1.01 at 2,048 words.
SPAN_BLOCK = 1 << 20

# --- Linear attention (`linear`, `linear_kernel`, `linear_state`) and the pointer (`copy_scores`)

#: Queries × keys up to which the quadratic form is taken: with relative positions. 1.07, 1.09 at 230 words.
LINEAR_RELATIVE = 230 * 230
#: Masked without them. 1.26, 1.04 at 270 words.
LINEAR_CAUSAL = 270 * 270
#: Where the linear form is two products. 0.96, 1.07 at 72 words.
LINEAR_PLAIN = 72 * 72
#: Elements that all operations process before the next are read: 0.25 MB in float32, which stay in a CPU's cache. 0.99,
#: 1.00 at 2,048 words.
LINEAR_PIECE = 1 << 16
#: Queries of a block. 1.06, 1.11 at 2,048 words.
LINEAR_BLOCK = 64
#: Blocks, of all heads together, that are handled at once. 1.03, 0.97 at 2,048 words.
LINEAR_SEGMENT = 64
#: Values between two sums that a `LinearMemory` keeps: a query reads up to twice as many beside its horizon.
LINEAR_SUMS = 8
#: Queries that the pointer compares at a time, at least.
COPY_QUERIES = 256
