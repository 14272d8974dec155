"""
Viterbi decoding of tagged entities (FormNet, section 3): the best sequence of labels among those that are legal.

In BIOES an entity of one word is S, a longer one B I ... I E (in BILOU U and B I ... I L); in IOB2 it is B I ... I.
All sequences of a batch are decoded at once, on the device of their scores, for any encoder's logits. The labels that
may follow a label differ by two cases only (an entity goes on, or it does not), so that a step costs as much as there
are labels, not their square.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

OUTSIDE = "O"
# The prefixes of BILOU, which is BIOES by other names.
BILOU = {"L": "E", "U": "S"}


class TagGrammar:
    """
    Which label may follow which.

    Args:
        labels: all labels in the order of their indices: O, and B-, I-, E- and S- of each type (or B-, I-, L- and U-;
            or B- and I-). Where one but O has no prefix all are plain labels, which follow each other freely.

    Raises:
        ValueError: a label cannot occur in any legal sequence, an I- without B- for example.
    """

    def __init__(self, labels: Sequence[str]):
        self.labels = list(labels)
        parts = _parts(self.labels)
        index = {part: place for place, part in enumerate(parts)}
        closed_by_end = any(prefix == "E" for prefix, _ in parts)
        # Within an entity, that is to be gone on with in BIOES and may be in IOB2.
        self.opens = torch.tensor([prefix in "BI" for prefix, _ in parts])
        self.goes_on = torch.tensor([prefix in "IE" for prefix, _ in parts])
        self.may_end = ~self.opens if closed_by_end else torch.ones(len(parts), dtype=torch.bool)
        before = []
        for label, (prefix, kind) in zip(self.labels, parts, strict=True):
            inside = [index[part] for part in (("B", kind), ("I", kind)) if part in index]
            if prefix in "IE" and ("B", kind) not in index:
                raise ValueError(f"The label {label} continues an entity, but there is no B-{kind}; add it.")
            if prefix in "BI" and closed_by_end and ("E", kind) not in index:
                raise ValueError(
                    f"The label {label} begins an entity that nothing ends; add E-{kind}, or L-{kind} in BILOU."
                )
            before.append([*inside, *inside][:2] if prefix in "IE" else [0, 0])
        self.before = torch.tensor(before)

    def allowed(self) -> torch.Tensor:
        """Bool `[labels, labels]`: the second may follow the first."""
        size = len(self.labels)
        follows = self.may_end[:, None] & ~self.goes_on[None, :]
        for label in range(size):
            if self.goes_on[label]:
                follows[self.before[label], label] = True
        return follows

    def is_legal(self, sequence: Sequence[int]) -> bool:
        """Whether the labels follow each other legally, from the first to the last."""
        if len(sequence) == 0:
            return True
        allowed = self.allowed()
        pairs = zip(sequence, sequence[1:], strict=False)
        ends = not self.goes_on[sequence[0]] and bool(self.may_end[sequence[-1]])
        return ends and all(bool(allowed[one, other]) for one, other in pairs)


@torch.no_grad()
def viterbi_decode(
    scores: torch.Tensor,
    grammar: TagGrammar,
    mask: torch.Tensor | None = None,
    transitions: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    The legal sequence of labels with the highest sum of scores.

    Args:
        scores: `[batch, length, labels]`, logits or log-probabilities.
        grammar: of the labels.
        mask: `[batch, length]`, 0 for tokens that have no label: they are passed over, what is before and after them
            follows each other. None for all.
        transitions: `[labels, labels]`, what each label after each other adds to the sum; None for nothing.

    Returns:
        int64 `[batch, length]`, -1 where there is no label.
    """
    if scores.dim() != 3 or scores.shape[-1] != len(grammar.labels):
        raise ValueError(
            f"The scores have the shape {list(scores.shape)}, but there are {len(grammar.labels)} labels; pass "
            "[batch, length, labels]."
        )
    batch, length, size = scores.shape
    device, lowest = scores.device, -torch.inf
    if not batch * length:
        return torch.zeros(batch, length, dtype=torch.long, device=device)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    order = present = None
    if mask is not None:
        # The tokens that have a label first, in their order; step by step from here on.
        present = mask.bool()
        order = (~present).to(torch.uint8).argsort(dim=1, stable=True)
        scores = scores.gather(1, order.unsqueeze(-1).expand_as(scores))
        present = present.gather(1, order).t().unsqueeze(-1)
    scores = scores.transpose(0, 1).contiguous()
    goes_on, may_end, before = (part.to(device) for part in (grammar.goes_on, grammar.may_end, grammar.before))
    closed = torch.zeros(size, dtype=scores.dtype, device=device).masked_fill(~may_end, lowest)
    one, other = before.t().contiguous()
    allowed = torch.empty(0)
    if transitions is not None:
        allowed = transitions.to(scores.dtype).masked_fill(~grammar.allowed().to(device), lowest)
    total = scores[0].masked_fill(goes_on, lowest)
    totals = []
    for place in range(1, length):
        totals.append(total)
        if transitions is not None:
            best = (total.unsqueeze(-1) + allowed).amax(1)
        else:
            inside = torch.maximum(total.index_select(1, one), total.index_select(1, other))
            best = torch.where(goes_on, inside, (total + closed).amax(-1, keepdim=True))
        best = best + scores[place]
        total = best if present is None else torch.where(present[place], best, total)
    label = (total + closed).argmax(-1, keepdim=True)
    found = [label]
    for place in reversed(range(1, length)):
        # Where the best way to this label came from.
        came = totals[place - 1]
        if transitions is not None:
            previous = (came + allowed.t().index_select(0, label.squeeze(1))).argmax(-1, keepdim=True)
        else:
            ways = before[label.squeeze(1)]
            which = came.gather(1, ways).argmax(-1, keepdim=True)
            previous = torch.where(goes_on[label], ways.gather(1, which), (came + closed).argmax(-1, keepdim=True))
        label = previous if present is None else torch.where(present[place], previous, label)
        found.append(label)
    path = torch.cat(found[::-1], 1)
    if present is None or order is None:
        return path
    path = path.masked_fill(~present.squeeze(-1).t(), -1)
    return torch.empty_like(path).scatter_(1, order, path)


class WordDecoder:
    """
    Labels of words from their log-probabilities, for processors that merge windows and sub-words.

    Args:
        id2label: index -> label.
        transitions: see `viterbi_decode`.
    """

    def __init__(self, id2label: Mapping[int, str], transitions: torch.Tensor | None = None):
        self.grammar = TagGrammar([id2label[index] for index in range(len(id2label))])
        self.transitions = transitions

    def __call__(self, documents: Sequence[Any]) -> list[Any]:
        """Log-probabilities `[words, labels]` of each document, as arrays -> label indices `[words]`, as arrays."""
        rows = [torch.as_tensor(document) for document in documents]
        if not rows:
            return []
        scores = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        lengths = torch.tensor([len(row) for row in rows])
        mask = torch.arange(scores.shape[1]) < lengths[:, None]
        path = viterbi_decode(scores, self.grammar, mask, self.transitions)
        return [labels[: len(row)].numpy() for labels, row in zip(path, rows, strict=True)]


def is_bioes(labels: Sequence[str]) -> bool:
    """Whether labels are those of BIOES or BILOU: O, and B-, I-, E- and S- (or L- and U-) of each type."""
    tagged = [label for label in labels if label != OUTSIDE]
    if not all(map(_is_tagged, tagged)) or not any(label[0] in "ESLU" for label in tagged):
        return False
    try:
        TagGrammar(labels)
    except ValueError:
        # Words that look like tags, as E-mail.
        return False
    return True


def _parts(labels: Sequence[str]) -> list[tuple[str, str]]:
    """The prefix, of BIOES, and the type of each label; S for labels that stand alone: O, and all plain ones."""
    if not all(label == OUTSIDE or _is_tagged(label) for label in labels):
        return [("S", label) for label in labels]
    return [("S", label) if label == OUTSIDE else (BILOU.get(label[0], label[0]), label[2:]) for label in labels]


def _is_tagged(label: str) -> bool:
    return len(label) > 2 and label[0] in "BIESLU" and label[1] == "-"
