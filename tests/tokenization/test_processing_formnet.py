import numpy as np
import pytest
import torch
from tests.tokenizers import tiny_tokenizer

from broadsheet.modeling.viterbi import WordDecoder
from broadsheet.tokenization.collation import LayoutDataCollator
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_formnet import FormNetProcessor

WORDS = ["Total", "overwhelmingly", "due", "total"]
BOXES = [[100, 20, 180, 40], [200, 20, 340, 40], [50, 150, 60, 200], [80, 100, 90, 110]]
PAGES = {"page_ids": [0, 0, 0, 1], "page_sizes": [(400, 200), (100, 400)]}


def windows(processor, **options):
    settings = {"return_word_ids": True, "return_overflowing_tokens": True, **PAGES, **options}
    return processor(text=WORDS, boxes=BOXES, **settings)


def test_boxes_are_shares_of_words_in_thousandths_of_the_page():
    batch = windows(FormNetProcessor(tiny_tokenizer("wordpiece")), return_tensors="pt")
    assert batch["bbox"].dtype == torch.float32
    words, boxes = batch["token_word_ids"][0], batch["bbox"][0]
    assert boxes[words == 0].tolist() == [[250, 100, 450, 200]]
    assert boxes[words == 3].tolist() == [[800, 250, 900, 275]]
    pieces = boxes[words == 1]
    assert len(pieces) > 2
    assert pieces[0, 0] == 500
    assert pieces[-1, 2] == 850
    assert torch.equal(pieces[1:, 0], pieces[:-1, 2])
    whole = windows(FormNetProcessor(tiny_tokenizer("wordpiece"), subword_boxes="word"), return_tensors="pt")
    assert (whole["bbox"][0][words == 1] == torch.tensor([500, 100, 850, 200])).all()


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_windows_carry_no_special_tokens(kind):
    processor = FormNetProcessor(tiny_tokenizer(kind))
    batch = windows(processor)
    assert min(batch["token_word_ids"][0]) == 0


def test_graph_links_words_of_a_page_and_pieces_of_a_word():
    batch = windows(FormNetProcessor(tiny_tokenizer("wordpiece")), return_tensors="np")
    graph, words = batch["graph_neighbors"][0], batch["token_word_ids"][0]
    assert graph.dtype == np.int32
    first = [int(np.flatnonzero(words == word)[0]) for word in range(4)]
    linked = [set(graph[place, :8][graph[place, :8] >= 0].tolist()) for place in first]
    assert linked[0] == {first[1], first[2]}
    assert linked[3] == set()
    pieces = np.flatnonzero(words == 1)
    assert graph[pieces, 9].tolist() == [*pieces[1:], -1]
    assert graph[pieces, 8].tolist() == [-1, *pieces[:-1]]
    assert (graph[pieces[1:], :8] == -1).all()


def test_windows_are_graphs_of_their_own():
    processor = FormNetProcessor(tiny_tokenizer("wordpiece"))
    batch = windows(processor, truncation=True, max_length=4, padding=True, return_tensors="pt")
    graph = batch["graph_neighbors"]
    lengths = batch["attention_mask"].sum(1)
    assert len(graph) > 1
    for row, length in zip(graph, lengths, strict=True):
        assert row.max() < length
        assert (row[length:] == -1).all()


def test_padding_on_the_left_moves_the_graph():
    processor = FormNetProcessor(tiny_tokenizer("wordpiece", padding_side="left"))
    rows = [processor(text=WORDS[:count], boxes=BOXES[:count], page_sizes=PAGES["page_sizes"][:1]) for count in (3, 2)]
    batch = LayoutDataCollator(processor)(rows)
    shift = len(rows[0]["input_ids"]) - len(rows[1]["input_ids"])
    alone = np.array(rows[1]["graph_neighbors"])
    assert batch["graph_neighbors"][1, shift:].tolist() == np.where(alone >= 0, alone + shift, -1).tolist()


def test_boxes_without_page_sizes_are_in_the_models_range():
    processor = FormNetProcessor(tiny_tokenizer("wordpiece"))
    assert processor(text=["total"], boxes=[[10.5, 20, 999.5, 1000]])["bbox"][0] == [10.5, 20, 999.5, 1000]
    with pytest.raises(InputError, match=r"range 0\.\.1000; pass page_sizes"):
        processor(text=["total"], boxes=[[10, 20, 1200, 30]])


def test_labels_from_entities():
    processor = FormNetProcessor(tiny_tokenizer("wordpiece"))
    entities = [
        {"type": "sum", "word_ids": [0, 2]},
        {"type": "when", "word_ids": [3]},
        {"type": "item", "word_ids": [5, 4]},
    ]
    tags = processor.bioes_labels(entities, 6)
    assert tags.labels == ["S-sum", "O", "S-sum", "S-when", "B-item", "E-item"]
    assert (tags.entities, tags.in_pieces, tags.reordered, tags.carried) == (3, 1, 1, 1)


def test_words_decoded_by_viterbi():
    """The most probable label of each word makes an I- without an end; the best legal sequence does not."""
    names = ["O", "B-x", "I-x", "E-x", "S-x"]
    processor = FormNetProcessor(tiny_tokenizer("wordpiece"), id2label=dict(enumerate(names)))
    batch = windows(processor, truncation=True, max_length=4, stride=1, padding=True, return_tensors="pt")
    logits = torch.zeros(*batch["input_ids"].shape, 5)
    for word, scores in enumerate(([1.0, 3, 0, 0, 0], [0, 0, 3.0, 0, 0], [2.0, 0, 0, 1.9, 0], [3.0, 0, 0, 0, 0])):
        logits[batch["token_word_ids"] == word] = torch.tensor(scores)
    document = {"words": WORDS, "boxes": BOXES, **PAGES}
    merge = processor.post_process_token_classification
    assert merge(logits, batch, document)[0].labels == ["B-x", "I-x", "O", "O"]
    decoded = merge(logits, batch, document, decode=WordDecoder(processor.id2label))[0]
    assert decoded.labels == ["B-x", "I-x", "E-x", "O"]
    assert [(entity.label, entity.word_ids) for entity in decoded.entities] == [("x", [0, 1, 2])]
    assert decoded.scores[2] < decoded.scores[0]
