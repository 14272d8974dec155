"""Pyramidion: an encoder-decoder that pools its representations as it encodes (Pyramidion, section 3)."""

from typing import Any

import torch
from torch import nn
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.generation import GenerationMixin
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
    SequenceClassifierOutput,
)
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .configuration_pyramidion import PyramidionConfig
from .growing_cache import give_room
from .heads import classifier_dropout, linear_classifier
from .matrix_products import Linear, packed_weights
from .pyramidion_encoder import PyramidionEncoder, PyramidionEncoderOutput, PyramidionPreTrainedModel
from .pyramidion_layers import PyramidionDecoderAttention, PyramidionDecoderLayer, PyramidionEmbeddings
from .tracing import is_traced


class PyramidionDecoder(PyramidionPreTrainedModel):
    """The decoder: dense causal self-attention, cross-attention to the pooled representations."""

    _can_record_outputs = {
        "hidden_states": PyramidionDecoderLayer,
        "attentions": OutputRecorder(PyramidionDecoderAttention, index=1, layer_name="attention"),
        "cross_attentions": OutputRecorder(PyramidionDecoderAttention, index=1, layer_name="cross_attention"),
    }

    def __init__(self, config: PyramidionConfig):
        super().__init__(config)
        self.embeddings = PyramidionEmbeddings(config, use_positions=config.decoder_positions, use_layout=False)
        self.layer = nn.ModuleList([PyramidionDecoderLayer(config, place) for place in range(config.decoder_layers)])
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """The word embeddings."""
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replace the word embeddings."""
        self.embeddings.word_embeddings = value

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """
        Args:
            input_ids: int `[batch, length]`, with a cache those not yet read.
            attention_mask: `[batch, all length]`, 0 for padding.
            encoder_hidden_states: `[batch, pooled length, hidden]`.
            encoder_attention_mask: `[batch, pooled length]`, False for padding.
            past_key_values: the caches of self-attention and cross-attention.
            inputs_embeds: `[batch, length, hidden]`, instead of `input_ids`.
            use_cache: make caches where none are given.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("Pass either decoder_input_ids or decoder_inputs_embeds, not both and not neither.")
        if encoder_hidden_states is None:
            raise ValueError("The decoder has nothing to read; pass encoder_hidden_states.")
        if use_cache and past_key_values is None:
            text = self.config.get_text_config(decoder=True)
            past_key_values = EncoderDecoderCache(DynamicCache(config=text), DynamicCache(config=text))
        start: Any = 0 if past_key_values is None else past_key_values.get_seq_length()
        hidden_states = self.embeddings(input_ids, inputs_embeds, start=start)
        own_cache = None if past_key_values is None else past_key_values.self_attention_cache
        mask = create_causal_mask(
            config=self.config,
            inputs_embeds=hidden_states,
            attention_mask=attention_mask,
            past_key_values=own_cache,
        )
        source_mask = create_bidirectional_mask(
            config=self.config,
            inputs_embeds=hidden_states,
            attention_mask=encoder_attention_mask,
            encoder_hidden_states=encoder_hidden_states,
        )
        for layer in self.layer:
            hidden_states = layer(
                hidden_states,
                encoder_hidden_states,
                attention_mask=mask,
                source_mask=source_mask,
                past_key_values=past_key_values,
                use_cache=use_cache,
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=hidden_states, past_key_values=past_key_values
        )


def shift_right(labels: torch.Tensor, start: int | None, pad: int | None) -> torch.Tensor:
    """What the decoder reads to write `labels` `[batch, length]`: the start token, then all but the last of them."""
    shifted = labels.roll(1, -1)
    shifted[:, 0] = 0 if start is None else start
    return shifted.masked_fill(shifted == -100, 0 if pad is None else pad)


def check_target(target: torch.Tensor, name: str, vocab_size: int, *sources: Any) -> None:
    """
    Refuse summaries that the model cannot read or write.

    Args:
        target: int `[batch, target length]`.
        name: "decoder_input_ids", or "labels", which may be -100.
        vocab_size: rows of the word embeddings.
        sources: what may hold the documents: tensors of two or more dimensions, the encoder's output, None.

    Raises:
        ValueError: naming what is at fault, and the remedy.
    """
    if target.dim() != 2:
        raise ValueError(f"{name} has the shape {list(target.shape)}; pass a batch, [batch, target length].")
    if target.is_floating_point():
        raise ValueError(f"{name} has the dtype {target.dtype}; pass the ids of tokens, as int64.")
    if is_traced():
        return
    if not target.shape[1]:
        raise ValueError(f"{name} has no tokens; pass at least one for each document.")
    given = [source if isinstance(source, torch.Tensor) else source[0] for source in sources if source is not None]
    for source in given:
        if source.dim() > 1 and len(source) != len(target):
            raise ValueError(f"There are {len(source)} documents but {len(target)} rows of {name}; pass one for each.")
    faulty = (target < 0) | (target >= vocab_size)
    if name == "labels":
        faulty &= target != -100
    if faulty.any():
        row, token = (int(index) for index in faulty.nonzero()[0])
        ignored = " (or -100, which is not predicted)" if name == "labels" else ""
        raise ValueError(
            f"{name} holds {int(target[row, token])} at token {token} in row {row}, outside 0..{vocab_size - 1}"
            f"{ignored}; use the checkpoint's own tokenizer."
        )


def check_target_mask(mask: torch.Tensor | None, target: torch.Tensor | None, caches: Any) -> None:
    """
    Refuse a `decoder_attention_mask` `[batch, all length]` of another shape than the tokens: `target`
    `[batch, length, ...]` and those in the caches. The masks that transformers makes for static caches pass.
    """
    if mask is None or target is None or mask.dim() != 2 or is_traced():
        return
    start = 0 if caches is None else caches.get_seq_length()
    expected = [len(target), start + target.shape[1]]
    if isinstance(start, int) and list(mask.shape) != expected:
        raise ValueError(
            f"decoder_attention_mask has the shape {list(mask.shape)} but the decoder's tokens need {expected}; pad "
            "it like decoder_input_ids, those in the cache included."
        )


class PyramidionModel(PyramidionPreTrainedModel):
    """
    Encoder and decoder.

    Args:
        config: the configuration.
        add_decoder: False for the encoder alone, for classification.
    """

    _tied_weights_keys = {
        "decoder.embeddings.word_embeddings.weight": "encoder.embeddings.word_embeddings.weight",
    }

    def __init__(self, config: PyramidionConfig, add_decoder: bool = True):
        super().__init__(config)
        self.encoder = PyramidionEncoder(config)
        self.decoder = PyramidionDecoder(config) if add_decoder else None
        if not add_decoder:
            self._tied_weights_keys = {}  # type: ignore[assignment]
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """The word embeddings."""
        return self.encoder.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replace the word embeddings, which the decoder shares."""
        self.encoder.embeddings.word_embeddings = value
        if self.decoder is not None:
            self.decoder.embeddings.word_embeddings = value

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqModelOutput:
        """
        Args:
            input_ids: int `[batch, length]`, the document.
            attention_mask: `[batch, length]`, 1 for tokens, 0 for padding; all ones when None.
            bbox: int `[batch, length, 4]`, (x0, y0, x1, y1) in 0..1000, with `config.use_layout`; else ignored.
            decoder_input_ids: int `[batch, target length]`; the start token alone when None.
            decoder_attention_mask: `[batch, target length]`, 0 for padding.
            encoder_outputs: of an earlier call of the encoder, instead of the document.
            past_key_values: the decoder's caches.
            inputs_embeds: `[batch, length, hidden]`, instead of `input_ids`.
            decoder_inputs_embeds: `[batch, target length, hidden]`, instead of `decoder_input_ids`.
            use_cache: return the decoder's caches.
            kwargs: `output_attentions`, `output_hidden_states`, `return_dict`.

        Returns:
            `last_hidden_state` `[batch, target length, hidden]`, and the encoder's output.
        """
        if self.decoder is None:
            raise ValueError("This model has no decoder; call its encoder, or build it with add_decoder=True.")
        if decoder_input_ids is not None:
            rows = self.decoder.embeddings.word_embeddings.num_embeddings
            check_target(decoder_input_ids, "decoder_input_ids", rows, input_ids, inputs_embeds, encoder_outputs)
        read = decoder_input_ids if decoder_inputs_embeds is None else decoder_inputs_embeds
        check_target_mask(decoder_attention_mask, read, past_key_values)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask, bbox, inputs_embeds, **kwargs)
        encoder_outputs = PyramidionEncoderOutput.of(encoder_outputs)
        source = encoder_outputs.last_hidden_state
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            start = self.config.decoder_start_token_id
            decoder_input_ids = torch.full((source.shape[0], 1), 0 if start is None else start, device=source.device)
        outputs = self.decoder(
            input_ids=decoder_input_ids,
            attention_mask=decoder_attention_mask,
            encoder_hidden_states=source,
            encoder_attention_mask=getattr(encoder_outputs, "attention_mask", None),
            past_key_values=past_key_values,
            inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=outputs.last_hidden_state,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.hidden_states,
            decoder_attentions=outputs.attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=source,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )


class PyramidionForConditionalGeneration(PyramidionPreTrainedModel, GenerationMixin):
    """Pyramidion that writes: the output layer shares the word embeddings."""

    _tied_weights_keys = {
        "lm_head.weight": "pyramidion.encoder.embeddings.word_embeddings.weight",
        "pyramidion.decoder.embeddings.word_embeddings.weight": "pyramidion.encoder.embeddings.word_embeddings.weight",
    }

    def __init__(self, config: PyramidionConfig):
        super().__init__(config)
        self.pyramidion = PyramidionModel(config)
        self.lm_head: nn.Linear = Linear(config.hidden_size, config.vocab_size, bias=False)
        # Labels are not shifted: the decoder reads them shifted.
        self.loss_type = "ForMaskedLM"
        self.post_init()

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        """The encoder, for `generate`."""
        return self.pyramidion.encoder

    def get_output_embeddings(self) -> nn.Linear:
        """The layer over the vocabulary."""
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the layer over the vocabulary."""
        self.lm_head = new_embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: EncoderDecoderCache | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Inputs as `PyramidionModel`; `labels` int `[batch, target length]`, -100 where nothing is predicted."""
        items = kwargs.pop("num_items_in_batch", None)
        if labels is not None:
            use_cache = False
            check_target(labels, "labels", self.config.vocab_size, input_ids, inputs_embeds, encoder_outputs)
            read = decoder_input_ids if decoder_inputs_embeds is None else decoder_inputs_embeds
            if read is not None and read.shape[:2] != labels.shape:
                raise ValueError(
                    f"The decoder reads {list(read.shape[:2])} tokens but labels has the shape {list(labels.shape)}; "
                    "pass one label for each token, or the labels alone."
                )
            if read is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.pyramidion(
            input_ids=input_ids,
            attention_mask=attention_mask,
            bbox=bbox,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            loss = self.loss_function(
                logits, labels.contiguous(), vocab_size=self.config.vocab_size, num_items_in_batch=items
            )
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
            encoder_attentions=outputs.encoder_attentions,
        )

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """As transformers', with weights packed for few rows."""
        with packed_weights(self):
            return super().generate(*args, **kwargs)  # type: ignore[misc]

    def _prepare_cache_for_generation(self, generation_config: Any, model_kwargs: Any, *args: Any) -> Any:
        given = model_kwargs.get("past_key_values")
        super()._prepare_cache_for_generation(generation_config, model_kwargs, *args)  # type: ignore[misc]
        made = model_kwargs.get("past_key_values")
        if made is not None and given is None:
            give_room(made.self_attention_cache)

    def _reorder_cache(self, past_key_values: Any, beam_idx: torch.Tensor) -> Any:
        # All beams of a document read the same source: when one takes over another only what they wrote is copied.
        past_key_values.self_attention_cache.reorder_cache(beam_idx)
        return past_key_values

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """Labels `[batch, target length]` shifted to the right, for collators that make the decoder's input."""
        return shift_right(labels, self.config.decoder_start_token_id, self.config.pad_token_id)


class PyramidionForSequenceClassification(PyramidionPreTrainedModel):
    """The encoder with a linear classifier over the mean of the representations that it leaves."""

    _keys_to_ignore_on_load_unexpected = [r"(^|\.)decoder\.", r"^lm_head\."]

    def __init__(self, config: PyramidionConfig):
        super().__init__(config)
        self.pyramidion = PyramidionModel(config, add_decoder=False)
        self.dropout = classifier_dropout(config)
        self.classifier = linear_classifier(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        bbox: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Inputs as the encoder's; `labels` `[batch]`, or float `[batch, num_labels]` for several at once."""
        items = {name: kwargs.pop(name) for name in ("num_items_in_batch",) if name in kwargs}
        outputs = self.pyramidion.encoder(input_ids, attention_mask, bbox, inputs_embeds, **kwargs)
        states, mask = outputs.last_hidden_state, outputs.attention_mask
        if mask is None:
            mean = states.mean(1)
        else:  # padding is zero
            mean = states.sum(1) / mask.sum(1, keepdim=True).clamp(min=1).to(states.dtype)
        logits = self.classifier(self.dropout(mean))
        return self.sequence_classification_output(outputs, logits, labels, **items)


__all__ = [
    "PyramidionForConditionalGeneration",
    "PyramidionForSequenceClassification",
    "PyramidionModel",
    "PyramidionPreTrainedModel",
]
