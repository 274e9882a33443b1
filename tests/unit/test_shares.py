"""What each rank gets of the work."""

from __future__ import annotations

from docnmt.runtime.jobs import deal


def test_the_costliest_pieces_go_first_each_to_the_least_loaded_rank() -> None:
    assert deal([1, 1, 4, 2], 2) == [[2], [0, 1, 3]]
    assert deal([3, 3, 3], 2) == [[0, 2], [1]]
    assert deal([5], 3) == [[0], [], []]
