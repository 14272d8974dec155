"""Configuration of LongSkimformer."""

from huggingface_hub.dataclasses import strict

from .configuration_skimformer import SkimformerConfig


@strict
class LongSkimformerConfig(SkimformerConfig):
    r"""
    Configuration of a LongSkimformer (Skim-Attention, sections 4.2 and 5.2): a Skimformer whose tokens attend to a
    sliding window, for inputs of 2,048 tokens and more. Fields are those of `SkimformerConfig`, and:

    Args:
        attention_window: how many tokens around a token it attends to, half before it and half after it; an even
            number. Inputs need no padding to it.
        contextualize_layout: as in `SkimformerConfig`; the contextualizer attends to the same window.
        skim_recompute_length: inputs of more tokens than this do not keep the attention probabilities
            `[batch, heads, length, window]` in memory; each layer computes them again, with the same results.
    """

    model_type = "long_skimformer"

    attention_window: int = 512
    max_position_embeddings: int = 2048
    skim_recompute_length: int = 8192

    def validate_architecture(self) -> None:
        """Refuse combinations that no model can be built from."""
        super().validate_architecture()
        if self.attention_window < 2 or self.attention_window % 2:
            raise ValueError(f"attention_window={self.attention_window} is no even number from 2 up; set it to one.")
        if not self.mask_layout_contextualizer:
            raise ValueError("A LongSkimformer's contextualizer is always masked; leave mask_layout_contextualizer.")


__all__ = ["LongSkimformerConfig"]
