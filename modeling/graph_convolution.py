"""
Super-tokens (FormNet, section 3.3): each token's embedding, with its box, convolved along the graph of the page.

A module of its own: any encoder that embeds tokens with boxes can put `SuperTokens` between its embeddings and its
layers. Linear in the tokens: neighbours are gathered by their places, ten at most.
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer

from .matrix_products import Linear, is_plain
from .seeded_dropout import Dropout
from .tracing import is_traced

# Numbers that describe a token's box, and an edge.
BOX_FEATURES, EDGE_FEATURES = 6, 11
# Coordinates are on a grid of this many units; features are in pages.
GRID = 1000
# Documents of more tokens keep no messages: the backward pass makes them again, so many tokens at a time.
RECOMPUTE_LENGTH, RECOMPUTE_PART = 1024, 512


def box_features(bbox: torch.Tensor) -> torch.Tensor:
    """The corners, the height and the width of boxes: `[batch, length, 4]` in 0..1000 -> `[batch, length, 6]`."""
    size = bbox[..., 2:] - bbox[..., :2]
    return torch.cat([bbox, size.flip(-1)], -1) / GRID


def edge_features(bbox: torch.Tensor, neighbors: torch.Tensor) -> torch.Tensor:
    """
    What an edge from k to l is described by, signed from k to l: the distances between centres, upper left and lower
    right corners (6), the shortest gap between the boxes on each axis (2), and ln((h + 1) / (w + 1)) of the box of k,
    of l, and of the one around both (3).

    Args:
        bbox: float32 `[batch, length, 4]`, 0..1000.
        neighbors: int64 `[batch, length, K]`, the places of l, none negative.

    Returns:
        `[batch, length, K, 11]`; lengths in pages.
    """
    here, there = torch.broadcast_tensors(bbox.unsqueeze(2), gather_neighbors(bbox, neighbors))
    corners = there - here
    centers = (corners[..., :2] + corners[..., 2:]) / 2
    # Positive where l begins after k ends, negative where it ends before k begins, zero where they overlap.
    after = (there[..., :2] - here[..., 2:]).clamp(min=0)
    before = (there[..., 2:] - here[..., :2]).clamp(max=0)
    around = torch.cat([torch.minimum(here, there)[..., :2], torch.maximum(here, there)[..., 2:]], -1)
    ratios = [_aspect(box) for box in (here, there, around)]
    return torch.cat([torch.cat([centers, corners, after + before], -1) / GRID, torch.stack(ratios, -1)], -1)


def _aspect(box: torch.Tensor) -> torch.Tensor:
    size = box[..., 2:] - box[..., :2]
    return torch.log1p(size[..., 1]) - torch.log1p(size[..., 0])


def gather_neighbors(tensor: torch.Tensor, neighbors: torch.Tensor) -> torch.Tensor:
    """`[batch, length, size]` at `[batch, rows, K]` -> `[batch, rows, K, size]`."""
    batch, length, size = tensor.shape
    offsets = torch.arange(batch, device=tensor.device).view(-1, 1, 1) * length
    rows = tensor.reshape(batch * length, size).index_select(0, (neighbors + offsets).flatten())
    return rows.view(*neighbors.shape, size)


class GraphConvolution(GradientCheckpointingLayer):
    """
    One graph convolution: v_k <- LayerNorm(v_k + attention over the messages of the neighbours of k).

    A message is MLP([v_k; v_l; e_kl]), e_kl the edge's features projected to the hidden size; one head attends to the
    messages, not to the token itself. A token without neighbours gets none.
    """

    def __init__(self, hidden_size: int, activation: str, eps: float, dropout: float):
        super().__init__()
        self.edge = nn.Linear(EDGE_FEATURES, hidden_size)
        # The first layer of the MLP in three parts: what k, l and the edge bring to it.
        self.message_source = Linear(hidden_size, hidden_size)
        self.message_target = Linear(hidden_size, hidden_size, bias=False)
        self.message_edge = nn.Linear(hidden_size, hidden_size, bias=False)
        self.message_output = Linear(hidden_size, hidden_size)
        self.query = Linear(hidden_size, hidden_size)
        self.activation = ACT2FN[activation]
        self.dropout = Dropout(dropout)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=eps)

    def forward(
        self, nodes: torch.Tensor, neighbors: torch.Tensor, exists: torch.Tensor, edges: torch.Tensor
    ) -> torch.Tensor:
        """
        Args:
            nodes: `[batch, length, hidden]`.
            neighbors: int64 `[batch, length, K]`, none negative.
            exists: bool `[batch, length, K]`, which of them there are.
            edges: `[batch, length, K, 11]`.

        Returns:
            `[batch, length, hidden]`.
        """
        source, target = self.message_source(nodes), self.message_target(nodes)
        edge_weight, edge_bias = self._edge_map()
        # The second layer is linear, and the weights of a token add up to one: it may follow their sum. The score
        # query . message is (W^T query) . hidden, up to what is the same for all neighbours.
        query, output_last = self.query(nodes), is_plain(self.message_output)
        if output_last:
            query = query @ self.message_output.weight
        query = query * nodes.shape[-1] ** -0.5
        fixed = (target, edge_weight, edge_bias, output_last)
        parts = (source, query, neighbors, exists, edges)
        if nodes.shape[1] <= RECOMPUTE_LENGTH or is_traced() or not torch.is_grad_enabled():
            received = self._receive(*parts, *fixed)
        else:
            split = zip(*(part.split(RECOMPUTE_PART, 1) for part in parts), strict=True)
            received = torch.cat([checkpoint(self._receive, *part, *fixed, use_reentrant=False) for part in split], 1)
        received = self.message_output(received) if output_last else received
        return self.LayerNorm(nodes + self.dropout(received * exists.any(-1, keepdim=True)))

    def _edge_map(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Weight and bias of both maps of an edge in one; None where the two have to be called."""
        if not (is_plain(self.edge) and is_plain(self.message_edge)):
            return None, None
        projected = self.message_edge.weight @ torch.cat([self.edge.weight, self.edge.bias.unsqueeze(1)], 1)
        return projected[:, :-1], projected[:, -1]

    def _receive(
        self,
        source: torch.Tensor,
        query: torch.Tensor,
        neighbors: torch.Tensor,
        exists: torch.Tensor,
        edges: torch.Tensor,
        target: torch.Tensor,
        edge_weight: torch.Tensor | None,
        edge_bias: torch.Tensor | None,
        output_last: bool,
    ) -> torch.Tensor:
        """The attended messages of some tokens, or with `output_last` their hidden layers: `[batch, rows, hidden]`."""
        hidden = gather_neighbors(target, neighbors) + source.unsqueeze(2)
        edges = edges.to(hidden.dtype)
        if edge_weight is None:
            of_edges = self.message_edge(self.edge(edges))
        else:
            of_edges = nn.functional.linear(edges, edge_weight, edge_bias)
        hidden = self.activation(hidden + of_edges)
        hidden = hidden if output_last else self.message_output(hidden)
        scores = (hidden @ query.unsqueeze(-1)).squeeze(-1)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        weights = scores.masked_fill(~exists, torch.finfo(scores.dtype).min).softmax(-1)
        return (weights.to(hidden.dtype).unsqueeze(-2) @ hidden).squeeze(-2)

    def plain_messages(self, nodes: torch.Tensor, neighbors: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """The messages themselves, by the paper's formula: `[batch, length, K, hidden]`."""
        here, there = torch.broadcast_tensors(nodes.unsqueeze(2), gather_neighbors(nodes, neighbors))
        weight = torch.cat([self.message_source.weight, self.message_target.weight, self.message_edge.weight], 1)
        joined = torch.cat([here, there, self.edge(edges)], -1)
        hidden = nn.functional.linear(joined, weight, self.message_source.bias)
        return self.message_output(self.activation(hidden))


class SuperTokens(nn.Module):
    """
    Token embeddings and boxes in, super-tokens out.

    Args:
        hidden_size: size of the embeddings and of the super-tokens.
        num_layers: graph convolutions.
        activation: of the messages and of the spatial embedding.
        eps: epsilon of the LayerNorms.
        dropout: dropout of the nodes and of what they receive.
    """

    def __init__(self, hidden_size: int, num_layers: int, activation: str, eps: float, dropout: float):
        super().__init__()
        self.spatial = nn.Linear(BOX_FEATURES, hidden_size)
        self.activation = ACT2FN[activation]
        self.node = Linear(2 * hidden_size, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=eps)
        self.dropout = Dropout(dropout)
        self.layer = nn.ModuleList(
            [GraphConvolution(hidden_size, activation, eps, dropout) for _ in range(num_layers)]
        )

    def forward(
        self,
        embeddings: torch.Tensor,
        bbox: torch.Tensor,
        graph_neighbors: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """
        Args:
            embeddings: `[batch, length, hidden]`, of the words alone.
            bbox: float32 `[batch, length, 4]`, (x0, y0, x1, y1) in 0..1000.
            graph_neighbors: int `[batch, length, K]`, places of tokens, -1 for none.
            attention_mask: `[batch, length]`, 0 for padding, which is nobody's neighbour; or None.

        Returns:
            `[batch, length, hidden]`.
        """
        neighbors = graph_neighbors.long()
        exists = neighbors >= 0
        neighbors = neighbors.clamp(min=0)
        if attention_mask is not None:
            is_token = gather_neighbors(attention_mask.unsqueeze(-1), neighbors).squeeze(-1) != 0
            exists = exists & is_token
        edges = edge_features(bbox, neighbors)
        spatial = self.activation(self.spatial(box_features(bbox).to(embeddings.dtype)))
        nodes = self.dropout(self.LayerNorm(self.node(torch.cat([embeddings, spatial], -1))))
        for layer in self.layer:
            nodes = layer(nodes, neighbors, exists, edges)
        return nodes


def check_graph_neighbors(
    graph_neighbors: torch.Tensor | None, input_shape: torch.Size, processor: str
) -> torch.Tensor:
    """
    Refuse a graph that does not fit the tokens.

    Args:
        graph_neighbors: int `[batch, length, K]`.
        input_shape: (batch, length) of the tokens.
        processor: the processor that makes it, for the message.

    Raises:
        ValueError: naming what is at fault, and the remedy.
    """
    remedy = f"let {processor}(text=words, boxes=boxes, page_sizes=page_sizes) make it"
    if graph_neighbors is None:
        raise ValueError(f"graph_neighbors is missing: pass graph_neighbors [batch, length, 10], or {remedy}.")
    if graph_neighbors.dim() != 3 or graph_neighbors.shape[:2] != input_shape or graph_neighbors.shape[2] == 0:
        raise ValueError(
            f"graph_neighbors has the shape {list(graph_neighbors.shape)} but the tokens need "
            f"{[*input_shape, 10]}; pad it like input_ids, with -1, or {remedy}."
        )
    if graph_neighbors.is_floating_point():
        raise ValueError(f"graph_neighbors has the dtype {graph_neighbors.dtype}; places are whole numbers: {remedy}.")
    if is_traced():
        return graph_neighbors
    faulty = (graph_neighbors < -1) | (graph_neighbors >= input_shape[1])
    if faulty.any():
        row, token, slot = (int(index) for index in faulty.nonzero()[0])
        raise ValueError(
            f"graph_neighbors holds {int(graph_neighbors[row, token, slot])} for token {token} in row {row}, outside "
            f"-1..{input_shape[1] - 1}; {remedy}, and cut documents into windows before the graph is made."
        )
    return graph_neighbors
