"""A plug-in with a search of its own: beam search in groups that avoid each other's words."""

from dataclasses import dataclass

import torch

from docnmt.core.search.generators import best_continuations, divided
from docnmt.plugin import BeamSearch, BeamSearchConfig, option, register_generator
from docnmt.runtime.device import to_lists


@dataclass(frozen=True)
class DiverseBeamSearchConfig(BeamSearchConfig):
    diverse_beam_groups: int | None = option(
        None,
        "groups of equal size that --beam is divided into; later ones avoid what earlier ones write [--beam]",
        between=(1, None),
    )
    diverse_beam_strength: float = option(
        0.5,
        "how much less log-probability a token has for a group, for each hypothesis of an earlier group that has it at "
        "the same place",
        between=(0, 1_000),
    )

    def problems(self):
        uneven = f"--diverse-beam-groups: must divide --beam ({self.beam}), got {self.groups}"
        return super().problems() + [uneven] * bool(self.beam % self.groups)

    @property
    def groups(self):
        return self.beam if self.diverse_beam_groups is None else self.diverse_beam_groups


@register_generator("diverse_beam_search")
class DiverseBeamSearch(BeamSearch):
    """Beam search in --diverse-beam-groups that avoid each other's words: up to --nbest translations that differ more.

    At every step the groups choose one after the other. A token is worth `strength` less to a group for each
    hypothesis that an earlier group has just given this token (Vijayakumar et al. 2018, algorithm 1, with Hamming
    diversity). This only decides what is chosen at this step: sums and scores are the model's. A given token is not
    avoided. A group ends when it has finished as many hypotheses as it has rows. A text that several groups find is
    given once.
    """

    Config = DiverseBeamSearchConfig
    takes_terms = False

    def __init__(self, config, device="cpu"):
        super().__init__(config, device)
        self.groups, self.size = config.groups, config.beam // config.groups
        self.ended = []  # for each slot, how many hypotheses each group has finished

    def admit(self, slots):
        super().admit(slots)
        for row in range(len(self.rows) - len(slots) * self.width, len(self.rows), self.size):
            self.rows[row] = self.rows[row]._replace(total=0.0)  # the first row of every group is alive
        self.ended += [[0] * self.groups for _ in slots]

    def leave(self, slots):
        self.ended = [ended for n, ended in enumerate(self.ended) if n not in slots]
        return super().leave(slots)

    def advance(self, logits):
        allowed, totals, slots = self.allowed(logits), self.totals, len(self.slots)
        rows = torch.arange(len(totals), device=totals.device).view(slots, self.groups, self.size)
        taken = allowed.new_zeros(slots, allowed.shape[1])  # how many hypotheses have just been given each token
        live = [[None] * self.groups for _ in range(slots)]  # each group's rows, tokens, log-probabilities and sums
        for group in range(self.groups):
            group_rows = rows[:, group].flatten()
            log_probs = allowed[group_rows]
            avoided = self.config.diverse_beam_strength * taken.repeat_interleave(self.size, dim=0) * (log_probs < 0)
            places, tokens, _, _ = best_continuations(log_probs - avoided, totals[group_rows], self.size)
            parents = group_rows[places]
            scores = allowed[parents, tokens]
            columns = to_lists([parents, tokens, scores, totals[parents] + scores])
            for n, (parent, token, score, total) in enumerate(zip(*columns, strict=True)):
                ends, others = divided(token, total, self.size)
                for index in ends:
                    self._finish(parent[index], score[index], total[index])
                for index in (*ends, *others):
                    taken[n, token[index]] += total[index] > -torch.inf
                self.ended[n][group] += len(ends)
                if self.ended[n][group] >= self.size:
                    total = [-torch.inf] * len(total)
                live[n][group] = [(parent[index], token[index], score[index], total[index]) for index in others]
        return self._grow(*map(list, zip(*(row for groups in live for group in groups for row in group), strict=True)))

    def _full(self, n):
        return min(self.ended[n]) >= self.size

    def _best(self, n):
        """The finished hypotheses of slot n, best first, each text once."""
        distinct = {}
        for hypothesis in super()._best(n):
            distinct.setdefault(hypothesis.tokens, hypothesis)
        return list(distinct.values())
