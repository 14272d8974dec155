"""The authors' fairseq checkpoints, made here in their format: converted models compute what the checkpoint says."""

import argparse
import json
import math
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoProcessor

import broadsheet  # noqa: F401  (registers the models)
from broadsheet.cli import main as cli
from broadsheet.conversion.pyramidion import convert_pyramidion, read_dictionary
from broadsheet.modeling.successive_halving import successive_halving_topk
from broadsheet.tokenization.input_checks import InputError

SIZE, HEADS, VOCABULARY = 16, 2, 40
OPTIONS: dict[str, Any] = {
    "arch": "transformer", "encoder_embed_dim": SIZE, "encoder_ffn_embed_dim": 24, "encoder_attention_heads": HEADS,
    "encoder_layers": 3, "decoder_embed_dim": SIZE, "decoder_ffn_embed_dim": 24, "decoder_attention_heads": HEADS,
    "decoder_layers": 2, "max_source_positions": 32, "max_target_positions": 64, "activation_fn": "relu",
    "share_all_embeddings": True, "chunk_size": 8, "enc_layers_and_token_width": "{1: 16, 2: 4}",
    "encoder_pooling": "topk", "use_sparse_attn": "pooler", "encoder_pooling_arch": "linear", "dropout": 0.1,
    "topk_softmax_base": 20, "flip_right": 1, "sort_back": 0, "no_decoder_positional_embeddings": True,
}  # fmt: skip


def fairseq_weights(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def linear(name: str, rows: int, columns: int) -> dict[str, torch.Tensor]:
        return {
            f"{name}.weight": 0.4 * torch.randn(rows, columns, generator=generator),
            f"{name}.bias": 0.2 * torch.randn(rows, generator=generator),
        }

    table = 0.3 * torch.randn(VOCABULARY, SIZE, generator=generator)
    table[1] = 0
    weights = {
        "encoder.version": torch.tensor([3.0]),
        "decoder.version": torch.tensor([3.0]),
        "encoder.embed_positions._float_tensor": torch.zeros(1),
        "decoder.embed_positions._float_tensor": torch.zeros(1),
        "encoder.embed_tokens.weight": table,
        "decoder.embed_tokens.weight": table.clone(),
        "decoder.output_projection.weight": table.clone(),
    }
    for part, layers, attentions in (("encoder", 3, ["self_attn"]), ("decoder", 2, ["self_attn", "encoder_attn"])):
        for layer in range(layers):
            for attention in attentions:
                for projection in ("q", "k", "v", "out"):
                    weights |= linear(f"{part}.layers.{layer}.{attention}.{projection}_proj", SIZE, SIZE)
                norm = f"{part}.layers.{layer}.{attention}_layer_norm"
                weights |= {f"{norm}.weight": 1 + 0.1 * torch.randn(SIZE, generator=generator)}
                weights |= {f"{norm}.bias": 0.1 * torch.randn(SIZE, generator=generator)}
            weights |= linear(f"{part}.layers.{layer}.fc1", 24, SIZE) | linear(f"{part}.layers.{layer}.fc2", SIZE, 24)
            norm = f"{part}.layers.{layer}.final_layer_norm"
            weights |= {f"{norm}.weight": torch.ones(SIZE), f"{norm}.bias": torch.zeros(SIZE)}
    for layer in range(3):
        weights |= linear(f"encoder.pooler.scorer.{layer}", 1, SIZE)
    return weights


def save(path, weights=None, form="args", **options):
    given = {**OPTIONS, **options}
    content: dict[str, Any] = {"model": fairseq_weights() if weights is None else weights, "extra_state": {"epoch": 3}}
    if form == "args":
        content["args"] = argparse.Namespace(**given)
    else:
        content |= {"args": None, "cfg": {"model": given if form == "cfg" else argparse.Namespace(**given)}}
    torch.save(content, path)
    return path


def dictionary(path, count=VOCABULARY - 4):
    path.write_text("".join(f"word{place} {100 - place}\n" for place in range(count)), encoding="utf-8")
    return path


def positions(count: int, start: int = 2) -> torch.Tensor:
    half = SIZE // 2
    rates = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
    angles = (torch.arange(count) + start)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


class Reference:
    """The authors' model written down with nothing but tensors, from the description of its format."""

    def __init__(self, weights: dict[str, torch.Tensor]):
        self.weights = weights

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (SIZE,), self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def attend(self, name: str, x: torch.Tensor, source: torch.Tensor, causal: bool = False) -> torch.Tensor:
        heads = []
        q, k, v = (self.linear(f"{name}.{part}_proj", y) for part, y in (("q", x), ("k", source), ("v", source)))
        for head in range(HEADS):
            part = slice(head * SIZE // HEADS, (head + 1) * SIZE // HEADS)
            scores = q[:, part] @ k[:, part].T / math.sqrt(SIZE // HEADS)
            if causal:
                scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
            heads.append(scores.softmax(-1) @ v[:, part])
        return self.linear(f"{name}.out_proj", torch.cat(heads, 1))

    def feed_forward(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return self.norm(
            f"{name}.final_layer_norm", x + self.linear(f"{name}.fc2", self.linear(f"{name}.fc1", x).relu())
        )

    def encode(self, ids: torch.Tensor, keep_order: bool) -> torch.Tensor:
        x = self.weights["encoder.embed_tokens.weight"][ids] * math.sqrt(SIZE) + positions(len(ids))
        for layer, width in enumerate((None, 16, 4)):
            name = f"encoder.layers.{layer}"
            attended = torch.cat([self.attend(f"{name}.self_attn", part, part) for part in x.split(8)])
            x = self.feed_forward(name, self.norm(f"{name}.self_attn_layer_norm", x + attended))
            if width and len(x) > width:
                scores = self.linear(f"encoder.pooler.scorer.{layer}", x).sigmoid() + 1e-5
                x = successive_halving_topk(x[None], scores.T, width, preserve_order=keep_order)[0][0]
        return x

    def __call__(self, ids: torch.Tensor, target: torch.Tensor, keep_order: bool = False) -> torch.Tensor:
        source = self.encode(ids, keep_order)
        x = self.weights["encoder.embed_tokens.weight"][target] * math.sqrt(SIZE) + positions(len(target))
        for layer in range(2):
            name = f"decoder.layers.{layer}"
            x = self.norm(f"{name}.self_attn_layer_norm", x + self.attend(f"{name}.self_attn", x, x, causal=True))
            x = self.norm(f"{name}.encoder_attn_layer_norm", x + self.attend(f"{name}.encoder_attn", x, source))
            x = self.feed_forward(name, x)
        return x @ self.weights["encoder.embed_tokens.weight"].T


@pytest.mark.parametrize("form", ["args", "cfg", "cfg with a namespace"])
@pytest.mark.parametrize("sort_back", [0, 1])
def test_computes_what_the_checkpoint_says(tmp_path, form, sort_back):
    convert_pyramidion(save(tmp_path / "a.pt", form=form, sort_back=sort_back), tmp_path / "out")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    generator = torch.Generator().manual_seed(1)
    target = torch.randint(4, VOCABULARY, (7,), generator=generator)
    for length in (32, 16, 8, 3):
        ids = torch.randint(4, VOCABULARY, (length,), generator=generator)
        expected = Reference(fairseq_weights())(ids, target, keep_order=bool(sort_back))
        actual = model(input_ids=ids[None], decoder_input_ids=target[None]).logits[0]
        torch.testing.assert_close(actual, expected, rtol=0, atol=2e-4)
    config = model.config
    assert (config.mask_padding, config.decoder_positions, config.preserve_order) == (False, True, bool(sort_back))
    assert config.encoder_lengths == [32, 16, 4]
    assert model.generate(input_ids=ids[None], max_new_tokens=5, num_beams=2).shape[0] == 1


def test_padding_takes_part(tmp_path):
    model = convert_pyramidion(save(tmp_path / "a.pt"), tmp_path / "out")
    ids = torch.randint(4, VOCABULARY, (2, 20), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(20) < torch.tensor([[20], [5]])
    target = torch.full((2, 4), 7)
    together = model(input_ids=ids.masked_fill(~mask, 1), attention_mask=mask, decoder_input_ids=target).logits
    alone = model(input_ids=ids[1:, :5], decoder_input_ids=target[1:]).logits
    assert together.isfinite().all()
    assert not torch.allclose(together[1], alone[0], atol=1e-3)


def test_without_pooling(tmp_path):
    weights = {name: value for name, value in fairseq_weights().items() if "pooler" not in name}
    model = convert_pyramidion(save(tmp_path / "a.pt", weights, encoder_pooling="lambda"), tmp_path / "out")
    assert model.config.encoder_lengths is None
    assert model.config.block_size is None


@pytest.mark.parametrize(
    ("pooling", "attention", "block"),
    [
        ("topk", "pooler", 8),
        ("topk", "pooler_no_block", None),
        ("topk", "none", None),
        ("topk", "only_blockwise", 8),
        ("lambda", "pooler", None),
        ("lambda", "only_blockwise", 8),
        (None, "pooler", 8),
    ],
)
def test_blocks(tmp_path, pooling, attention, block):
    path = save(tmp_path / "a.pt", encoder_pooling=pooling, use_sparse_attn=attention)
    config = convert_pyramidion(path, tmp_path / "out").config
    assert config.block_size == block
    assert config.encoder_lengths == (None if pooling == "lambda" else [32, 16, 4])


@pytest.mark.parametrize("told", ["{}", "", None])
def test_lengths_that_are_not_told_are_halves(tmp_path, told):
    model = convert_pyramidion(save(tmp_path / "a.pt", enc_layers_and_token_width=told), tmp_path / "out")
    assert model.config.encoder_lengths == [16, 8, 4]


def test_dictionary_becomes_a_processor(tmp_path):
    path = dictionary(tmp_path / "dict.txt")
    convert_pyramidion(save(tmp_path / "a.pt"), tmp_path / "out", path)
    processor = AutoProcessor.from_pretrained(tmp_path / "out")
    batch = processor(text="word0 word5 never", text_target="word1", return_tensors="pt")
    assert batch["input_ids"].tolist() == [[4, 9, 3, 2]]
    assert batch["labels"].tolist() == [[5, 2]]
    assert processor.post_process_summaries([[2, 4, 9, 2, 1]]) == ["word0 word5"]
    assert read_dictionary(path)[:5] == ["<s>", "<pad>", "</s>", "<unk>", "word0"]
    with pytest.raises(InputError, match=r"has 10 entries .* have 40; name the dictionary"):
        convert_pyramidion(save(tmp_path / "a.pt"), tmp_path / "o", dictionary(tmp_path / "d.txt", 6))
    (tmp_path / "d.txt").write_text("no count here\n")
    with pytest.raises(InputError, match=r"Line 1 of .* is 'no count here'"):
        read_dictionary(tmp_path / "d.txt")


def test_output_of_its_own(tmp_path):
    weights = fairseq_weights()
    weights["decoder.output_projection.weight"] = torch.randn(VOCABULARY, SIZE)
    model = convert_pyramidion(save(tmp_path / "a.pt", weights), tmp_path / "out")
    assert torch.equal(model.lm_head.weight, weights["decoder.output_projection.weight"])
    assert torch.equal(model.get_input_embeddings().weight, weights["encoder.embed_tokens.weight"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"flip_right": 0}, "flip_right=0"),
        ({"encoder_pooling": "mean"}, "encoder_pooling='mean'"),
        ({"encoder_pooling_arch": "mlp"}, "another scorer"),
        ({"decoder_embed_dim": 8}, "decoder_embed_dim=8"),
        ({"encoder_normalize_before": True}, "encoder_normalize_before"),
        ({"enc_layers_and_token_width": "{1: 16"}, "which is no dictionary"),
        ({"enc_layers_and_token_width": "{1: 15}"}, "encoder_lengths=.* goes from 32 to 15"),
        ({"enc_layers_and_token_width": "{1: 16, 3: 4}"}, "{1: 16, 3: 4} but 3 encoder layers"),
        ({"enc_layers_and_token_width": "[1, 2]"}, "no dictionary of numbers"),
        ({"use_sparse_attn": "lsh"}, "use_sparse_attn='lsh'; only_blockwise, pooler"),
        ({"no_token_positional_embeddings": True}, "no_token_positional_embeddings"),
        ({"cross_self_attention": True}, "cross_self_attention"),
        ({"encoder_layers": 4}, "not those of its options; missing .*encoder.layer.3"),
        ({"decoder_layers": 1}, "unknown: decoder.layers.1"),
        ({"encoder_ffn_embed_dim": 20, "decoder_ffn_embed_dim": 20}, "of another shape: .*fc1"),
    ],
)
def test_refused_options(tmp_path, options, sentence):
    with pytest.raises(InputError, match=sentence):
        convert_pyramidion(save(tmp_path / "a.pt", **options), tmp_path / "out")


class Harmful:
    def __reduce__(self):
        return (print, ("this ran",))


def test_files_that_are_none(tmp_path, capsys):
    for content, sentence in (
        ({"model": fairseq_weights(), "args": Harmful()}, "which could run code when it is read"),
        ({"model": 3, "args": None}, "no state dict under 'model'"),
        ({"model": fairseq_weights()}, "no options under 'args' or 'cfg'"),
    ):
        torch.save(content, tmp_path / "a.pt")
        with pytest.raises(InputError, match=sentence):
            convert_pyramidion(tmp_path / "a.pt", tmp_path / "out")
    assert "this ran" not in capsys.readouterr().out
    whole = save(tmp_path / "a.pt").read_bytes()
    (tmp_path / "a.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        convert_pyramidion(tmp_path / "a.pt", tmp_path / "out")
    with pytest.raises(InputError, match="There is no file"):
        convert_pyramidion(tmp_path / "b.pt", tmp_path / "out")


def test_command(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli(["convert", "pyramidion", str(save(tmp_path / "a.pt")), str(tmp_path / "out")])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "PyramidionForConditionalGeneration" in shown
    assert "no processor without --dict" in shown
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "pyramidion"
