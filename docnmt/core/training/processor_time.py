"""Check that training gets the processor time that its threads could use."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from docnmt.runtime.launch import processors

#: Seconds before a warning is possible, and the share of the possible time below which it is given.
SHARE_PATIENCE, SHARE = 60.0, 0.5


@dataclass
class ProcessorTime:
    """Compares processor time since it was created with what threads and processors could give, and warns once."""

    wall: float = field(default_factory=time.monotonic)
    processor: float = field(default_factory=time.process_time)
    said: bool = False

    def warning(self, threads: int) -> str:
        """Return the warning that is due now, or an empty string."""
        wall, processor = time.monotonic() - self.wall, time.process_time() - self.processor
        possible = min(threads, processors()) * wall
        if self.said or wall < SHARE_PATIENCE or processor >= SHARE * possible:
            return ""
        self.said = True
        fewer = max(1, round(processor / wall))
        advice = f"OMP_NUM_THREADS={fewer} may be faster" if fewer < threads else "it would be faster alone"
        return (
            f"warning: {threads} threads got {100 * processor / possible:.0f} % of the processor time that "
            f"they could use: the machine is busy, or waits for the data; {advice}"
        )
