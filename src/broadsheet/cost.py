"""What attention costs: the accounting of Table 4 of the Skim-Attention paper, as a function of a config."""

from dataclasses import dataclass
from typing import Any

from broadsheet.tokenization.input_checks import InputError

FULL_ATTENTION = ("bert", "layoutlm", "roberta", "lambert", "bert_with_skim_embeddings")


@dataclass(frozen=True)
class AttentionCost:
    """
    What the attentions of one document cost, in products of a query with a key per head.

    Attributes:
        length: tokens of the document, n.
        attended: how many tokens a standard attention is counted over, "Seq. Len" of the paper: n, or k.
        standard_attentions: attentions computed from the text, one per layer.
        skim_attentions: attentions computed from the layout, those of the contextualizer among them.
        formula: the paper's count, one skim-attention as n^2 and one standard attention as `attended`^2.
        products: the products that are left when those outside of the pattern are skipped: n * k where each token
            attends to k.
        peer: what the paper compares with.
        peer_products: what an encoder of that kind with as many layers computes.
    """

    length: int
    attended: int
    standard_attentions: int
    skim_attentions: int
    formula: int
    products: int
    peer: str
    peer_products: int

    @property
    def formula_share(self) -> float:
        """Total compute as the paper counts it, relative to the peer: 1.0 is as much."""
        return self.formula / self.peer_products

    @property
    def products_share(self) -> float:
        """The products left, relative to the peer."""
        return self.products / self.peer_products


def attention_cost(config: Any, length: int) -> AttentionCost:
    """
    Count the attentions of a model and their cost.

    Args:
        config: of a member of the Skim-Attention family, or of a BERT, LayoutLM, RoBERTa, LAMBERT or Longformer.
        length: tokens of the document.

    Raises:
        InputError: the length is below 1, or the model type is none of these.
    """
    if length < 1:
        raise InputError(f"A document of {length} tokens has no attention; give a length of 1 or more.")
    model_type = config.model_type
    layers = config.num_hidden_layers
    every = length**2
    if model_type in FULL_ATTENTION:
        return AttentionCost(length, length, layers, 0, layers * every, layers * every, "BERT", layers * every)
    if model_type == "skimformer":
        skim = _skim_attentions(config)
        return AttentionCost(length, length, 0, skim, skim * every, skim * every, "BERT", layers * every)
    if model_type == "skimming_mask":
        skim, k = _skim_attentions(config.skim_config), min(config.top_k, length)
        formula, products = skim * every + layers * k**2, skim * every + layers * length * k
        return AttentionCost(length, k, layers, skim, formula, products, "BERT", layers * every)
    if model_type in ("long_skimformer", "longformer"):
        window = config.attention_window
        widths = [window] * layers if isinstance(window, int) else list(window)
        full = sum(_window_products(length, width) for width in widths)
        if model_type == "longformer":
            return AttentionCost(length, length, layers, 0, full, full, "Longformer", full)
        skim = _skim_attentions(config)
        left = skim * _window_products(length, widths[0])
        return AttentionCost(length, length, 0, skim, left, left, "Longformer", full)
    known = ", ".join((*FULL_ATTENTION, "longformer", "skimformer", "long_skimformer", "skimming_mask"))
    raise InputError(f"The attention of a '{model_type}' is not counted here; give the config of one of {known}.")


def _skim_attentions(config: Any) -> int:
    return 1 + (config.num_hidden_layers_layout_encoder if config.contextualize_layout else 0)


def _window_products(length: int, window: int) -> int:
    """Each token with itself and half the window on either side, as far as the document goes."""
    half = min(window // 2, length - 1)
    return length * (2 * half + 1) - half * (half + 1)
