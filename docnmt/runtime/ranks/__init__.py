"""The ranks of a job: exchange of values, division of work and sums of tensors among its processes.

torch.distributed does the work. A process that was started by itself is the only rank of its job; then nothing here
costs anything. All ranks must call `exchange`, `share`, `sum_over_ranks` and `same_everywhere` in the same order.
"""

from docnmt.runtime.ranks.divide_work import deal
from docnmt.runtime.ranks.rank import Elsewhere, may_stop, rank, stop, world
from docnmt.runtime.ranks.rank_tensors import gather_rows, same_everywhere, sum_over_ranks
from docnmt.runtime.ranks.share_values import check_alike, exchange, share, shared_out
from docnmt.runtime.ranks.start_ranks import joined

__all__ = [
    "Elsewhere",
    "check_alike",
    "deal",
    "exchange",
    "gather_rows",
    "joined",
    "may_stop",
    "rank",
    "same_everywhere",
    "share",
    "shared_out",
    "stop",
    "sum_over_ranks",
    "world",
]
