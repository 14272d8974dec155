import numpy as np
import pytest
import torch
from tests.tokenizers import tiny_tokenizer
from transformers import AutoProcessor

from broadsheet.modeling import token_inputs
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.page_stacking import stack_pages
from broadsheet.tokenization.processing_lambert import LARGEST_HEIGHT, LambertProcessor

WORDS = ["Total", "amount", "due"]
BOXES = [[100, 20, 180, 40], [0, 0, 400, 200], [50, 150, 60, 200]]
PAGES = {"page_ids": [0, 0, 1], "page_sizes": [(400, 200), (100, 400)]}


def word_boxes(batch):
    """The box of each word's first sub-word."""
    first = np.asarray(batch["token_subword_ids"][0]) == 0
    return np.asarray(batch["bbox"][0])[first]


def test_boxes_are_in_units_of_each_pages_height():
    processor = LambertProcessor(tiny_tokenizer("bpe"))
    batch = processor(
        text=WORDS, boxes=BOXES, **PAGES, return_word_ids=True, return_overflowing_tokens=True, return_tensors="pt"
    )
    assert batch["bbox"].dtype == torch.float32
    expected = [[0.5, 0.1, 0.9, 0.2], [0, 0, 2, 1], [0.125, 0.375, 0.15, 0.5]]
    np.testing.assert_allclose(word_boxes(batch), expected, rtol=1e-6)
    assert not batch["bbox"][0, 0].any()
    assert batch.to(torch.bfloat16)["bbox"].dtype == torch.float32


def test_stacked_pages_have_one_width():
    processor = LambertProcessor(tiny_tokenizer("bpe"), page_stacking="stack")
    batch = processor(
        text=WORDS, boxes=BOXES, **PAGES, return_word_ids=True, return_overflowing_tokens=True, return_tensors="pt"
    )
    # The second page is four times as wide on the first one's scale, and begins at its end.
    expected = [[0.5, 0.1, 0.9, 0.2], [0, 0, 2, 1], [1, 4, 1.2, 5]]
    np.testing.assert_allclose(word_boxes(batch), expected, rtol=1e-6)


def test_a_stack_spans_the_pages_of_the_window():
    sizes = np.array([[10.0, 10], [20, 20], [10, 10], [40, 20]])
    boxes = np.array([[0, 0, 20, 20], [0, 0, 10, 10], [0, 0, 0, 0], [0, 0, 40, 20]], dtype=float)
    stacked, width, height = stack_pages(boxes, np.array([1, 2, -1, 3]), sizes)
    assert (width, height) == (20, 50)
    assert stacked.tolist() == [[0, 0, 20, 20], [0, 20, 20, 40], [0, 0, 0, 0], [0, 40, 20, 50]]


def test_without_page_sizes_boxes_are_already_in_page_heights():
    processor = LambertProcessor(tiny_tokenizer("bpe"))
    batch = processor(text=["wide"], boxes=[[1.2, 0, 1.4, 1.0]])
    assert batch["bbox"][1] == pytest.approx([1.2, 0, 1.4, 1.0])
    for box in ([0.5, 0, 1, 1.5], [0.5, 0, 12, 1]):
        with pytest.raises(InputError) as error:
            processor(text=["wide"], boxes=[box])
        assert f"The box {[float(value) for value in box]} of word 0 ('wide')" in str(error.value)
        assert "page heights down and 0..10 across; pass page_sizes" in str(error.value)


def test_clipping_without_page_sizes_leaves_landscape_pages_alone():
    processor = LambertProcessor(tiny_tokenizer("bpe"))
    boxes = [[1.2, 0.1, 1.35, 0.2], [0, 0.9, 12, 1.1], [0, 0, 1, 1]]
    batch = processor(text=WORDS, boxes=boxes, clip_boxes=True, return_word_ids=True, return_overflowing_tokens=True)
    np.testing.assert_allclose(word_boxes(batch), [[1.2, 0.1, 1.35, 0.2], [0, 0.9, 10, 1], [0, 0, 1, 1]], rtol=1e-6)


def test_a_stack_higher_than_the_model_takes():
    assert LARGEST_HEIGHT == token_inputs.LARGEST_HEIGHT
    processor = LambertProcessor(tiny_tokenizer("bpe"), page_stacking="stack")
    pages = {"page_ids": [0, 1], "page_sizes": [(100, 1), (100, 100)]}
    boxes = [[0, 0, 1, 1], [0, 98, 1, 99]]
    processor(text=WORDS[:2], boxes=boxes, **pages)
    boxes[1][3] = 99.5
    with pytest.raises(InputError, match="Pages 0 to 1 of the document make a stack of more than 100 heights"):
        processor(text=WORDS[:2], boxes=boxes, **pages)


def test_page_stacking_is_saved(tmp_path):
    LambertProcessor(tiny_tokenizer("bpe"), page_stacking="stack").save_pretrained(tmp_path)
    assert LambertProcessor.from_pretrained(tmp_path).page_stacking == "stack"
    with pytest.raises(InputError, match="page_stacking is 'pile'; choose 'page' or 'stack'"):
        LambertProcessor(tiny_tokenizer("bpe"), page_stacking="pile")


def test_auto_processor(tmp_path):
    import broadsheet  # noqa: F401
    from broadsheet.modeling.configuration_lambert import LambertConfig

    LambertProcessor(tiny_tokenizer("bpe")).save_pretrained(tmp_path)
    LambertConfig().save_pretrained(tmp_path)
    assert type(AutoProcessor.from_pretrained(tmp_path)).__name__ == "LambertProcessor"
