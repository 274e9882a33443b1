"""The processes of one job, its ranks: what one of them knows, all of them learn, and one speaks for them.

torch.distributed does the work. A process that was started by itself is the only rank of its job; nothing here then
costs it anything. All ranks call `exchange`, `share`, `sum_over_ranks` and `same_everywhere` in the same order.
"""

from docnmt.ranks.dealing import deal
from docnmt.ranks.job import Elsewhere, may_stop, rank, stop, world
from docnmt.ranks.meeting import joined
from docnmt.ranks.sharing import check_alike, exchange, share, shared_out
from docnmt.ranks.tensors import gather_rows, same_everywhere, sum_over_ranks

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
