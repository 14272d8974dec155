import pytest
import torch
from tests.tokenizers import tiny_tokenizer
from tests.training.test_finetune import assert_equal_weights, weights

from broadsheet.training.augmentation import drop_tokens, move_boxes, without_word
from broadsheet.training.finetune import main


def test_unknown_words_are_words():
    tokenizer = tiny_tokenizer()
    words = tokenizer(["total", "\u2603"], is_split_into_words=True, padding="max_length", max_length=6)
    assert tokenizer.unk_token_id in words.input_ids
    assert without_word(torch.tensor([words.input_ids]), tokenizer).tolist() == [
        [True, False, False, True, True, True]
    ]


def test_drop_tokens():
    torch.manual_seed(0)
    ids = torch.arange(10, 2010).reshape(2, 1000)
    special = torch.zeros_like(ids, dtype=torch.bool)
    special[:, :500] = True
    dropped = drop_tokens(ids, special, 4, 0.25)
    assert torch.equal(dropped[:, :500], ids[:, :500])
    assert 0.2 < (dropped[:, 500:] == 4).float().mean() < 0.3
    kept = dropped != 4
    assert torch.equal(dropped[kept], ids[kept])
    assert torch.equal(drop_tokens(ids, special, 4, 0.0), ids)


def test_move_boxes():
    torch.manual_seed(0)
    bbox = torch.tensor([[[0, 0, 0, 0], [0, 0, 1000, 1000], [100, 200, 300, 240], [100, 200, 300, 240]]] * 50)
    special = torch.zeros(bbox.shape[:2], dtype=torch.bool)
    special[:, 0] = True
    moved = move_boxes(bbox, special, 1000, 0.4)
    assert moved.dtype == bbox.dtype
    assert not moved[:, 0].any()
    assert moved.min() >= 0
    assert moved.max() <= 1000
    # Equal boxes stay equal, corners in order, pages shrink by 0.4 at most and each otherwise.
    assert torch.equal(moved[:, 2], moved[:, 3])
    assert (moved[..., 2:] >= moved[..., :2]).all()
    widths = moved[:, 1, 2] - moved[:, 1, 0]
    assert widths.min() >= 599
    assert len(widths.unique()) > 20
    assert not torch.equal(moved[:, 1, 2] - moved[:, 1, 0], moved[:, 1, 3] - moved[:, 1, 1])
    assert torch.equal(move_boxes(bbox, special, 1000, 0.0), bbox)


def test_boxes_between_whole_numbers_stay_between():
    torch.manual_seed(0)
    bbox = torch.rand(3, 5, 4) * 10
    special = torch.zeros(3, 5, dtype=torch.bool)
    moved = move_boxes(bbox, special, 1000, 0.4)
    assert moved.dtype == bbox.dtype
    assert (moved != moved.floor()).any()
    assert torch.equal(move_boxes(bbox, special, 1000, 0.0), bbox)


def test_run_resumes_with_the_same_draws(arguments, tmp_path):
    settings = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3, "save_total_limit": 5}
    settings |= {"token_dropout": 0.3, "box_augmentation": 0.3}
    main(arguments(output_dir=tmp_path / "whole", **settings))
    checkpoint = tmp_path / "whole" / "checkpoint-3"
    main(arguments(output_dir=tmp_path / "resumed", resume_from_checkpoint=checkpoint, **settings))
    assert_equal_weights(weights(tmp_path / "whole"), weights(tmp_path / "resumed"))
    main(arguments(output_dir=tmp_path / "plain", **{**settings, "token_dropout": 0.0}))
    with pytest.raises(AssertionError):
        assert_equal_weights(weights(tmp_path / "whole"), weights(tmp_path / "plain"))


def test_bad_shares(arguments):
    with pytest.raises(SystemExit, match="token_dropout=1.5 is a share"):
        main(arguments(token_dropout=1.5))
