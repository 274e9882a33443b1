"""The metrics of the service, in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """The counters, gauges and histograms of one service.

    Args:
        slots: returns the number of sentences that are being translated.
    """

    def __init__(self, slots: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "docnmt_requests", "Requests that have ended.", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "docnmt_request_seconds",
            "Seconds from a request's first byte to its end.",
            ["path"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.active = Gauge("docnmt_requests_active", "Translations read, waiting or at work.", registry=self.registry)
        self.sentences = Counter("docnmt_sentences", "Sentences translated.", registry=self.registry)
        self.tokens = Counter("docnmt_source_tokens", "Source subwords accepted.", registry=self.registry)
        rows = Gauge("docnmt_sentences_at_work", "Sentences that are written now.", registry=self.registry)
        rows.set_function(slots)
        ProcessCollector(registry=self.registry)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)
