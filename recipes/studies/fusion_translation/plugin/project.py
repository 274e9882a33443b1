"""A relative of concatenation in recipes/studies/fusion_translation: the same linear layer behind addition.

docnmt-train DATA --user-dir recipes/studies/fusion_translation/plugin --position-fusion project …
"""

from torch import Tensor, nn

from docnmt.plugin import Fusion, register_fusion


@register_fusion("project")
class Project(Fusion):
    """H = W(E + P) + b, which is W[E; P] + b with one matrix for both."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.projection = nn.Linear(d_model, d_model)

    def combine(self, e: Tensor, p: Tensor, offsets: Tensor | None) -> Tensor:
        """W(E + P) + b."""
        projected: Tensor = self.projection(e + p)
        return projected
