"""LayoutLM's embeddings for long documents: words, 1-D and 2-D positions, token types."""

import torch
from torch import nn

from .configuration_long_layoutlm import LongLayoutLMConfig
from .seeded_dropout import Dropout
from .token_inputs import embed_types


class LongLayoutLMLayoutTable(nn.Embedding):
    """A 2-D position table. A class of its own, so that it can start at zero."""


class LongLayoutLMEmbeddings(nn.Module):
    """LayoutLM's embeddings: words, 1-D and 2-D positions, token types, then LayerNorm and dropout."""

    def __init__(self, config: LongLayoutLMConfig):
        super().__init__()
        size, rows = config.hidden_size, config.max_2d_position_embeddings
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, size)
        self.x_position_embeddings = LongLayoutLMLayoutTable(rows, size)
        self.y_position_embeddings = LongLayoutLMLayoutTable(rows, size)
        self.h_position_embeddings = LongLayoutLMLayoutTable(rows, size)
        self.w_position_embeddings = LongLayoutLMLayoutTable(rows, size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.position_offset = config.position_offset

    def forward(
        self,
        input_ids: torch.Tensor | None,
        bbox: torch.Tensor,
        token_type_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
    ) -> torch.Tensor:
        """`input_ids` `[batch, length]` or `inputs_embeds`, and `bbox`, as the model -> `[batch, length, hidden]`."""
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        offset = self.position_offset
        positions = torch.arange(offset, offset + words.shape[1], device=words.device)
        embedding = words + self.position_embeddings(positions)
        embedding = embedding + embed_types(self.token_type_embeddings, token_type_ids, words.device)
        x, y, (x0, y0, x1, y1) = self.x_position_embeddings, self.y_position_embeddings, bbox.unbind(-1)
        embedding = embedding + x(x0) + y(y0) + x(x1) + y(y1)
        embedding = embedding + self.h_position_embeddings(y1 - y0) + self.w_position_embeddings(x1 - x0)
        return self.dropout(self.LayerNorm(embedding))
