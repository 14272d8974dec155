"""Representation pooling for any encoder: score the tokens, let the best ones pass (Pyramidion, section 3.1)."""

from typing import Any, NamedTuple

import torch
from torch import nn

from .topk_operators import OPERATORS, even_scores, window_lengths

# What the authors' code adds to a sigmoid score.
SMALLEST_SCORE = 1e-5
SCORERS = ("linear", "nonlinear", "attention", "embedding", "index", "random")


class Pooled(NamedTuple):
    """
    What is left of the tokens.

    Attributes:
        hidden_states: `[batch, k, hidden]`, or as they were where there are no more than k.
        mask: bool `[batch, k]`, False for padding; None where all are real.
        scores: `[batch, k]`.
    """

    hidden_states: torch.Tensor
    mask: torch.Tensor | None
    scores: torch.Tensor


class LinearScorer(nn.Linear):
    """w x + b, the paper's choice. A class of its own, so that models can initialise it apart."""

    def __init__(self, hidden_size: int):
        super().__init__(hidden_size, 1)

    def forward(self, hidden_states: torch.Tensor, *_: Any) -> torch.Tensor:  # type: ignore[override]
        """`[batch, length, hidden]` -> `[batch, length]`."""
        return super().forward(hidden_states).squeeze(-1)


class NonlinearScorer(nn.Module):
    """RoBERTa's classification head: w2 tanh(W1 x + b1) + b2."""

    def __init__(self, hidden_size: int):
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.out_proj = LinearScorer(hidden_size)

    def forward(self, hidden_states: torch.Tensor, *_: Any) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, length]`."""
        return self.out_proj(torch.tanh(self.dense(hidden_states)))


class EmbeddingScorer(nn.Module):
    """One coordinate of the representation."""

    def __init__(self, coordinate: int = 0):
        super().__init__()
        self.coordinate = coordinate

    def forward(self, hidden_states: torch.Tensor, *_: Any) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, length]`."""
        return hidden_states[..., self.coordinate]


class AttentionScorer(nn.Module):
    """PoWER's: the attention that a token receives, summed over queries and heads."""

    def forward(self, hidden_states: torch.Tensor, k: int, mask: Any, received: torch.Tensor | None) -> torch.Tensor:
        """`received` `[batch, length]` -> the same."""
        if received is None:
            raise ValueError("The attention scorer needs the attention that each token received; pass received.")
        return received


class IndexScorer(nn.Module):
    """1 for every n/k-th token, 0 for the others."""

    def forward(self, hidden_states: torch.Tensor, k: int, mask: torch.Tensor | None, *_: Any) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, length]`."""
        return even_scores(hidden_states.detach().select(-1, 0), k, mask)


class RandomScorer(nn.Module):
    """Uniform in 0..1: drawn anew in training, a fixed function of the token's place in evaluation."""

    def forward(self, hidden_states: torch.Tensor, *_: Any) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, length]`."""
        like = hidden_states.detach().select(-1, 0)
        if self.training:
            return torch.rand_like(like)
        place = torch.arange(like.shape[1], device=like.device, dtype=torch.float32)
        return (((place + 1) * 12.9898).sin() * 43758.547).frac().abs().to(like.dtype).expand_as(like)


def make_scorer(name: str, hidden_size: int, coordinate: int = 0) -> nn.Module:
    """The scorer of that name, one of `SCORERS`."""
    makers: dict[str, Any] = {
        "linear": lambda: LinearScorer(hidden_size),
        "nonlinear": lambda: NonlinearScorer(hidden_size),
        "attention": AttentionScorer,
        "embedding": lambda: EmbeddingScorer(coordinate),
        "index": IndexScorer,
        "random": RandomScorer,
    }
    return makers[name]()


class RepresentationPooling(nn.Module):
    """
    Reduce `[batch, length, hidden]` to k tokens.

        pooling = RepresentationPooling(LinearScorer(768))
        hidden_states, mask, scores = pooling(hidden_states, k=512, mask=attention_mask.bool())

    Args:
        scorer: maps (hidden states, k, mask, received attention) to scores `[batch, length]`; None where the operator
            reads none.
        operator: of `OPERATORS`.
        score_activation: "sigmoid", sigmoid(x) + 1e-5, which the power form of successive halving needs; None.
        options: further arguments of the operator.
    """

    def __init__(
        self,
        scorer: nn.Module | None,
        operator: str = "successive_halving",
        score_activation: str | None = "sigmoid",
        **options: Any,
    ):
        super().__init__()
        if operator not in OPERATORS:
            raise ValueError(f"There is no operator {operator!r}; choose one of {', '.join(OPERATORS)}.")
        if scorer is None and OPERATORS[operator].reads_scores:
            raise ValueError(f"The operator {operator!r} reads scores; pass a scorer.")
        free = isinstance(scorer, AttentionScorer) or not (score_activation or isinstance(scorer, UNSCALED))
        if operator == "successive_halving" and options.get("peak", "power") == "power" and free:
            raise ValueError(
                "Scores without a limit overflow base^score, the power form of successive halving; set "
                'score_activation to "sigmoid" (the attention scorer has none), or peak to "exponential".'
            )
        self.scorer = scorer
        self.operator = operator
        self.score_activation = score_activation
        self.options = options

    def forward(
        self,
        hidden_states: torch.Tensor,
        k: int,
        mask: torch.Tensor | None = None,
        received: torch.Tensor | None = None,
    ) -> Pooled:
        """
        Args:
            hidden_states: `[batch, length, hidden]`, more than k tokens; inputs of no more are not pooled.
            k: how many are left.
            mask: `[batch, length]`, False or 0 for padding.
            received: `[batch, length]`, the attention that each token received, for the scorer that reads it.
        """
        operator = OPERATORS[self.operator]
        scores = hidden_states.detach().select(-1, 0)
        if self.scorer is not None:
            scores = self.scorer(hidden_states, k, mask, received)
        if self.score_activation == "sigmoid" and not isinstance(self.scorer, UNSCALED):
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).sigmoid() + SMALLEST_SCORE
        if hidden_states.shape[1] <= k:
            return Pooled(hidden_states, None if mask is None else mask.bool(), scores)
        pooled, kept = operator.function(hidden_states, scores, k, mask=mask, **self.options)
        if mask is None:
            length = torch.full((1, 1), hidden_states.shape[1], device=hidden_states.device)
        else:
            length = mask.bool().sum(1, keepdim=True)
        real = torch.arange(k, device=hidden_states.device) < operator.lengths(length, k)
        if mask is None:
            # Windows of a length that is no multiple of theirs are fewer than k.
            full = operator.lengths is not window_lengths or bool(real.all())
            return Pooled(pooled, None if full else real.expand(pooled.shape[:2]), kept)
        return Pooled(pooled, real, kept)


# Their scores are left as they are: in 0..1, or those of the attention received, which are only compared.
UNSCALED = (AttentionScorer, IndexScorer, RandomScorer)


__all__ = [
    "SCORERS",
    "AttentionScorer",
    "EmbeddingScorer",
    "IndexScorer",
    "LinearScorer",
    "NonlinearScorer",
    "Pooled",
    "RandomScorer",
    "RepresentationPooling",
    "make_scorer",
]
