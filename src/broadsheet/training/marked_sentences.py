"""
A made task on which pooling must learn what to keep: find the marked sentences of a document and copy them.

    python -m broadsheet.training.marked_sentences --operator successive_halving --scorer linear --output_dir OUT
    broadsheet reproduce marked_sentences --scale small

A document is `length` random words in sentences of four. Three of them, one in each third of the document, are set in
bold: their words come from a second half of the vocabulary. The summary is these sentences in plain words. Attention
sees blocks of four sentences alone, and after the first layer one representation in sixteen is left: what the pooling
drops is lost. Nothing but the loss of the summary says what is worth keeping.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

from broadsheet.modeling.configuration_pyramidion import PyramidionConfig
from broadsheet.modeling.modeling_pyramidion import PyramidionForConditionalGeneration
from broadsheet.training.runs import environment, write_json

WORDS, SENTENCE, MARKED, PAD, START, END = 64, 4, 3, 0, 1, 2
RATIO, BLOCK = 16, 16


def make_batch(documents: int, length: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Documents int `[documents, length]` and their summaries `[documents, 13]`, the last token of which ends them.

    Args:
        documents: how many.
        length: tokens of a document, a multiple of four.
        generator: what they are drawn from.
    """
    count = length // SENTENCE
    words = torch.randint(3, 3 + WORDS, (documents, count, SENTENCE), generator=generator)
    thirds = torch.linspace(0, count, MARKED + 1).long()
    places = [
        torch.randint(int(first), int(last), (documents,), generator=generator)
        for first, last in zip(thirds[:-1], thirds[1:], strict=True)
    ]
    index = torch.stack(places, 1).unsqueeze(-1).expand(-1, -1, SENTENCE)
    marked = words.gather(1, index)
    words.scatter_(1, index, marked + WORDS)
    return words.flatten(1), torch.nn.functional.pad(marked.flatten(1), (0, 1), value=END)


def make_model(operator: str, scorer: str | None, length: int, seed: int) -> PyramidionForConditionalGeneration:
    """A small model that pools sixteen to one after its first layer; operator "none" for one that does not pool."""
    torch.manual_seed(seed)
    pooled = length // RATIO
    settings: dict[str, Any] = {}
    if operator != "none":
        settings = {"encoder_lengths": [pooled, pooled], "operator": operator, "scorer": scorer}
    config = PyramidionConfig(
        vocab_size=3 + 2 * WORDS,
        hidden_size=64,
        intermediate_size=128,
        num_attention_heads=4,
        num_hidden_layers=2,
        decoder_layers=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_source_length=length,
        block_size=BLOCK,
        decoder_positions=True,
        pad_token_id=PAD,
        bos_token_id=START,
        eos_token_id=END,
        decoder_start_token_id=END,
        **settings,
    )
    return PyramidionForConditionalGeneration(config)


@torch.no_grad()
def measure(model: Any, documents: torch.Tensor, summaries: torch.Tensor) -> dict[str, float]:
    """Shares of words written rightly, and of summaries without a fault, of what the model writes by itself."""
    model.eval()
    length = summaries.shape[1] - 1
    written = model.generate(input_ids=documents, max_new_tokens=length, min_new_tokens=length, do_sample=False)
    right = written[:, 1:] == summaries[:, :-1]
    model.train()
    return {"words": right.float().mean().item(), "summaries": right.all(1).float().mean().item()}


def train(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train and measure as the arguments say; what `results.json` holds."""
    started, cpu = time.time(), time.process_time()
    length, steps = arguments.length, arguments.steps
    scorer = None if arguments.scorer == "none" else arguments.scorer
    model = make_model(arguments.operator, scorer, length, arguments.seed)
    drawn, held_out = (torch.Generator().manual_seed(seed) for seed in (arguments.seed + 1, 10_000_019))
    validation = make_batch(64, length, held_out)
    test = make_batch(arguments.test_documents, length, held_out)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate, weight_decay=0.0)
    warm_up = max(1, min(200, steps // 5))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm_up, 4 * (1 - step / steps), 1.0)
    )
    curve = []
    for step in range(1, steps + 1):
        documents, summaries = make_batch(arguments.batch_size, length, drawn)
        loss = model(input_ids=documents, labels=summaries).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step % max(1, steps // 10) == 0:
            found = measure(model, *validation)
            curve.append([step, 100 * found["words"]])
            print(f"step {step}: loss {loss.item():.3f}, words {found['words']:.3f}", flush=True)
    found = measure(model, *test)
    return {
        "name": f"{arguments.operator}-{arguments.scorer}",
        "task": "marked sentences",
        "model_type": "pyramidion",
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "metrics": {"test": {name: 100 * value for name, value in found.items()}},
        "curve": curve,
        "data": {
            "name": "made: random words, three sentences of four in bold",
            "tokens": length,
            "left after pooling": length if arguments.operator == "none" else length // RATIO,
            "test documents": arguments.test_documents,
        },
        "budget": {
            "steps": steps,
            "batch_size": arguments.batch_size,
            "learning_rate": arguments.learning_rate,
            "cpu_time_s": round(time.process_time() - cpu, 1),
        },
        "seeds": {"training": arguments.seed},
        "environment": environment(torch.device("cpu")),
        "wall_time_s": round(time.time() - started, 1),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Train, measure, write `results.json` into the output folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operator", default="successive_halving", help="of Pyramidion's, or none for no pooling")
    parser.add_argument("--scorer", default="linear", help="of Pyramidion's, or none")
    parser.add_argument("--length", type=int, default=256, help="tokens of a document, a multiple of 64")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--test_documents", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output_dir", required=True)
    arguments = parser.parse_args(sys.argv[1:] if argv is None else list(argv))
    results = train(arguments)
    write_json(os.path.join(arguments.output_dir, "results.json"), results)
    shares = results["metrics"]["test"]
    print(f"words {shares['words']:.1f} %, whole summaries {shares['summaries']:.1f} %")


if __name__ == "__main__":
    main()
