"""The heads that the family's encoders share. Parameters carry the names of BERT's and RoBERTa's heads."""

from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)

from .matrix_products import Linear
from .seeded_dropout import Dropout


class FirstTokenPooler(nn.Module):
    """tanh(dense(first token))."""

    def __init__(self, hidden_size: int):
        super().__init__()
        self.dense = Linear(hidden_size, hidden_size)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, hidden]`."""
        return torch.tanh(self.dense(hidden_states[:, 0]))


class BertPredictionTransform(nn.Module):
    """Dense, activation, LayerNorm: `cls.predictions.transform` in BERT."""

    def __init__(self, config: Any):
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.activation = ACT2FN[config.hidden_act]
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """`[batch, length, hidden]` -> the same shape."""
        return self.LayerNorm(self.activation(self.dense(hidden_states)))


class BertPredictions(nn.Module):
    """`cls.predictions` in BERT; the decoder is tied to the word embeddings, its bias is `bias`."""

    def __init__(self, config: Any):
        super().__init__()
        self.transform = BertPredictionTransform(config)
        self.decoder: nn.Linear = Linear(config.hidden_size, config.vocab_size, bias=True)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, length, vocab]`."""
        return self.decoder(self.transform(hidden_states))


class BertMaskedLMHead(nn.Module):
    """BERT's head for masked language modelling, `cls`."""

    def __init__(self, config: Any):
        super().__init__()
        self.predictions = BertPredictions(config)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, length, vocab]`."""
        return self.predictions(hidden_states)


class RobertaMaskedLMHead(nn.Module):
    """RoBERTa's head for masked language modelling, `lm_head`; the decoder's bias is `bias`."""

    def __init__(self, config: Any):
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder: nn.Linear = Linear(config.hidden_size, config.vocab_size)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, length, vocab]`."""
        return self.decoder(self.layer_norm(nn.functional.gelu(self.dense(hidden_states))))


class RobertaClassificationHead(nn.Module):
    """RoBERTa's head for documents, `classifier`: dropout, dense, tanh, dropout, linear, on the first token."""

    def __init__(self, config: Any):
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.dropout = classifier_dropout(config)
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """`[batch, length, hidden]` -> `[batch, num_labels]`."""
        first = torch.tanh(self.dense(self.dropout(hidden_states[:, 0])))
        return self.out_proj(self.dropout(first))


def init_heads(module: nn.Module) -> None:
    """Initialise what `PreTrainedModel._init_weights` does not know: the bias of the masked LM heads."""
    if isinstance(module, (BertPredictions, RobertaMaskedLMHead)):
        init.zeros_(module.bias)


def linear_classifier(config: Any) -> nn.Linear:
    """`[..., hidden]` -> `[..., num_labels]`."""
    return nn.Linear(config.hidden_size, config.num_labels)


def classifier_dropout(config: Any) -> Dropout:
    """Dropout before a classifier: `classifier_dropout`, or the hidden dropout where it is None."""
    rate = config.classifier_dropout if config.classifier_dropout is not None else config.hidden_dropout_prob
    return Dropout(rate)


class EncoderHeadMixin:
    """
    What a model with a head does with its encoder's outputs. The concrete class names its inputs in `forward` (Trainer
    reads the signature), calls its encoder, and hands over.
    """

    config: Any
    loss_function: Any
    _tied_weights_keys: Any

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """As in transformers, but a head's two names for its bias stay one where the embeddings are not tied."""
        tied = super().get_expanded_tied_weights_keys(all_submodels)  # type: ignore[misc]
        if all_submodels or tied:
            return tied
        keys = self._tied_weights_keys or {}
        return {name: source for name, source in keys.items() if name.endswith(".bias")}

    def masked_lm_output(
        self,
        outputs: BaseModelOutputWithPooling,
        logits: torch.Tensor,
        labels: torch.Tensor | None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """`labels` int `[batch, length]`, -100 where nothing is predicted; logits `[batch, length, vocab]`."""
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels.contiguous(), vocab_size=self.config.vocab_size, **kwargs)
        return MaskedLMOutput(loss, logits, outputs.hidden_states, outputs.attentions)

    def token_classification_output(
        self,
        outputs: BaseModelOutputWithPooling,
        logits: torch.Tensor,
        labels: torch.Tensor | None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        """`labels` int `[batch, length]`, -100 where nothing is predicted; logits `[batch, length, labels]`."""
        loss = None if labels is None else self.loss_function(logits, labels.contiguous(), self.config, **kwargs)
        return TokenClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)

    def sequence_classification_output(
        self,
        outputs: BaseModelOutputWithPooling,
        logits: torch.Tensor,
        labels: torch.Tensor | None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """`labels` `[batch]` or, for several labels at once, float `[batch, labels]`; logits `[batch, labels]`."""
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels.contiguous(), pooled_logits=logits, config=self.config, **kwargs)
            items = kwargs.get("num_items_in_batch")
            if items is not None and self.config.problem_type != "single_label_classification":
                # transformers' loss of numbers and of several labels is the mean of this batch all the same, though
                # Trainer hands on how many labels all accumulated batches have, for a share of their mean.
                loss = loss * labels.numel() / torch.as_tensor(items, device=loss.device)
        return SequenceClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)

    def question_answering_output(
        self,
        outputs: BaseModelOutputWithPooling,
        logits: torch.Tensor,
        attention_mask: torch.Tensor | None,
        start_positions: torch.Tensor | None,
        end_positions: torch.Tensor | None,
        **kwargs: Any,
    ) -> QuestionAnsweringModelOutput:
        """
        Positions int `[batch]`, the answer's first and last token; logits `[batch, length, 2]`.

        No answer starts or ends in padding: its scores are the lowest number, else the loss would grow with padding.
        """
        if attention_mask is not None:
            logits = logits.masked_fill(~attention_mask.bool()[..., None], torch.finfo(logits.dtype).min)
        start_logits, end_logits = logits.unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = self.loss_function(start_logits, end_logits, start_positions, end_positions, **kwargs)
        return QuestionAnsweringModelOutput(loss, start_logits, end_logits, outputs.hidden_states, outputs.attentions)
