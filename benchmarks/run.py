"""Run one entry: time, matrix products, memory at each length."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.clock import interleave, paired_ratio, summarise
from benchmarks.entry import Benchmark, Size
from benchmarks.matrix_products import make_replay, record
from benchmarks.memory import peak_memory
from benchmarks.steps import build, make_step
from broadsheet.cost import attention_cost
from broadsheet.tokenization.input_checks import InputError

PRODUCTS = " (products)"


def measure(
    benchmark: Benchmark, device: torch.device, tiny: bool, progress: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """
    Measure all contestants of an entry.

    Returns:
        length -> contestant -> `wall_s` and `cpu_s` (summaries), `time_ratio` (paired with the peer's of the same
        rounds), `products` (`wall_s`, `time_ratio`, `gflop`), `memory` (bytes: resident, peak, step),
        `memory_ratio` and `peak_ratio`; `attention`, its cost as counted rather than measured, see `attention_shares`.
    """
    return {
        str(length): _measure_length(
            benchmark,
            Size(length, benchmark.batch_size, benchmark.dropout, tiny, benchmark.beams),
            device,
            progress,
        )
        for length in benchmark.lengths
    }


def _measure_length(
    benchmark: Benchmark, size: Size, device: torch.device, progress: Callable[[str], None]
) -> dict[str, Any]:
    results: dict[str, Any] = {name: {} for name in benchmark.contestants}
    if benchmark.memory:
        for name in benchmark.contestants:
            progress(f"{benchmark.name}: memory of {name} at {size.length}")
            threads = torch.get_num_threads()
            results[name]["memory"] = peak_memory(name, benchmark.step, size, device, threads)
        peer = results[benchmark.peer]["memory"]
        for result in results.values():
            result["memory_ratio"] = result["memory"]["step"] / max(peer["step"], 1)
            result["peak_ratio"] = result["memory"]["peak"] / max(peer["peak"], 1)

    steps = {}
    for name in benchmark.contestants:
        progress(f"{benchmark.name}: building {name} at {size.length}")
        model = build(name, size, device)
        results[name]["attention"] = attention_shares(model.config, size.length)
        steps[name] = make_step(model, benchmark.step, size, device)
        if benchmark.products:
            products, flops = record(steps[name])
            results[name]["products"] = {"gflop": round(flops / 1e9, 6)}
            steps[name + PRODUCTS] = make_replay(products)
    times = interleave(
        steps,
        benchmark.repetitions,
        device,
        progress=lambda: progress(f"{benchmark.name}: timing at {size.length}"),
    )
    for name, result in results.items():
        result["wall_s"], result["cpu_s"] = summarise(times[name]["wall"]), summarise(times[name]["cpu"])
        result["time_ratio"] = paired_ratio(times[name]["wall"], times[benchmark.peer]["wall"])
        result["cpu_ratio"] = paired_ratio(times[name]["cpu"], times[benchmark.peer]["cpu"])
        if benchmark.products:
            alone, peer_alone = (times[other + PRODUCTS]["wall"] for other in (name, benchmark.peer))
            result["products"]["wall_s"] = summarise(alone)
            result["products"]["time_ratio"] = paired_ratio(alone, peer_alone)
    return results


def attention_shares(config: Any, length: int) -> dict[str, Any] | None:
    """
    The attention that `broadsheet.cost` counts, relative to a standard encoder of as many layers: `peer`, `formula`
    (Table 4 of the Skim-Attention paper) and `products` (those left when skipped ones are). None for other models.
    """
    try:
        cost = attention_cost(config, length)
    except InputError:
        return None
    return {"peer": cost.peer, "formula": cost.formula_share, "products": cost.products_share}
