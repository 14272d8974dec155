"""
A sparse baseline of the paper's Table 2, trained and measured as `broadsheet summarize` does a Pyramidion.

    python -m benchmarks.summarize_baseline --baseline lsh --preset vanilla --dataset pubmed_summarization
        --data_dir PUBMED --output_dir OUT

It starts from the Pyramidion that the other flags describe, new or of a checkpoint: full attention for lsh and
efficient (`--preset vanilla`), blocks or full attention and no pooling for funnel and power. `broadsheet reproduce
sparse_summaries` runs the table.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from huggingface_hub.errors import StrictDataclassError

from benchmarks.sparse_baselines import as_funnel, as_power, with_sparse_attention
from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.arguments import parse
from broadsheet.training.runs import exit_with_sentence
from broadsheet.training.summarize import build, run_until_stopped
from broadsheet.training.summary_arguments import (
    SummaryDataArguments,
    SummaryModelArguments,
    SummaryRunArguments,
    SummaryTrainingArguments,
)


@dataclasses.dataclass
class BaselineArguments:
    """Which baseline."""

    baseline: Literal["lsh", "efficient", "funnel", "power"] = dataclasses.field(
        default="lsh",
        metadata={"help": "lsh, efficient: the encoder's attention; funnel, power: what its layers leave out."},
    )
    stride: int = dataclasses.field(
        default=16, metadata={"help": "funnel: neighbours that become one after the first encoder layer."}
    )
    lengths: str = dataclasses.field(
        default="4096,1024,256", metadata={"help": "power: the length after each encoder layer."}
    )


@exit_with_sentence
def main(argv: Sequence[str] | None = None) -> None:
    """Train and measure as the arguments say."""
    choice, *arguments = parse(
        [
            BaselineArguments,
            SummaryRunArguments,
            SummaryDataArguments,
            SummaryModelArguments,
            SummaryTrainingArguments,
        ],
        argv,
        "python -m benchmarks.summarize_baseline",
        __doc__.split("\n\n")[0].strip(),
    )

    def make(*options: Any) -> tuple[Any, Any]:
        network, processor = build(*options)
        return as_baseline(network, choice), processor

    run_until_stopped(*arguments, make=make)


def as_baseline(network: Any, choice: BaselineArguments) -> Any:
    """
    A Pyramidion without pooling as the baseline, with the same weights.

    Raises:
        InputError: the model, or a setting, does not fit the baseline.
    """
    try:
        if choice.baseline == "funnel":
            return as_funnel(network, choice.stride)
        if choice.baseline == "power":
            return as_power(network, [int(length) for length in choice.lengths.split(",")])
        return with_sparse_attention(network, choice.baseline)
    except (ValueError, StrictDataclassError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise InputError(f"{choice.baseline} does not fit this model: {reason}") from None


if __name__ == "__main__":
    main()
