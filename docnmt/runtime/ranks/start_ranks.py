"""Connecting and disconnecting the ranks of a job."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from datetime import timedelta

import torch
from torch import distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from docnmt.runtime import launch
from docnmt.runtime.errors import Terminated, UserError
from docnmt.runtime.ranks.lost_ranks import reason, signs_of_life
from docnmt.runtime.ranks.rank import RankState, current, enter
from docnmt.runtime.ranks.share_values import exchange

#: How long a rank waits for others that live: longer than one ever works alone, like the first for `--explain`.
_WAIT = timedelta(days=1)


@contextlib.contextmanager
def joined(*, afterwards: str = "run the command again") -> Iterator[None]:
    """Connect to the other ranks, if any, inside the context. Only the first prints; an error is printed only once.

    Args:
        afterwards: advice in messages after another process has ended the job.

    Raises:
        UserError: the others did not connect.
        UsageError: DOCNMT_RANK_TIMEOUT is no number of minutes.
        Elsewhere: another rank has failed, and reports it.
    """
    place = launch.place()
    if place.world == 1 or current() is not None:
        yield
        return
    os.environ.update(MASTER_ADDR=place.address, MASTER_PORT=str(place.port))
    os.environ.update(RANK=str(place.rank), WORLD_SIZE=str(place.world), LOCAL_RANK=str(place.local_rank))
    if torch.cuda.is_available():
        torch.cuda.set_device(place.local_rank)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    where = f"rank {place.rank} of {place.world}: could not meet the others at {place.address}:{place.port}"
    try:
        store, _, _ = next(rendezvous("env://"))
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{where}: {error}") from error
    job = RankState(PrefixStore("docnmt", store), afterwards)
    with signs_of_life(job, place.rank, place.world):
        try:
            distributed.init_process_group(backend, store=store, rank=place.rank, world_size=place.world, timeout=_WAIT)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"{where}: {error}") from error
        enter(job)
        launch.meet()
        if place.rank:
            launch.mute()
        try:
            job.store.set(f"name/{place.rank}", f"{socket.gethostname()}, process {os.getpid()}")
            exchange(None)
            yield
            exchange(None)  # wait for all: the first rank may hold the store
        except (Exception, Terminated, KeyboardInterrupt) as error:
            found = reason(job, error)
            if found is error:
                raise
            raise found from error
        else:
            distributed.destroy_process_group()
        finally:
            enter(None)
