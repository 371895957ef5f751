"""Write docs/performance.md and its plots from the JSON files in benchmarks/results."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from goals import NOT_MEASURED, Outcome, Result, is_cuda, judge, place_of, setting_of

ROOT = Path(__file__).parents[1]
TEMPLATE = Path(__file__).with_name("performance.md.jinja")
GIBIBYTE = 2**30
STATED_ROWS = 50_000_000
"""The rows that the time of reading a large set is extrapolated to."""


def read_results(folder: Path) -> list[Result]:
    """Read all results, those of GPUs first."""
    found = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda result: not is_cuda(result))


def of_benchmark(results: Sequence[Result], benchmark: str) -> list[Result]:
    """Return the results of one benchmark."""
    return [result for result in results if result["benchmark"] == benchmark]


def number(value: float | None, digits: int = 1) -> str:
    """Write a number, or a dash if there is none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def step_rows(result: Result) -> list[list[str]]:
    """Return the lines of the table of one train_step result."""
    rows = []
    for size, rivals in result["sizes"].items():
        for name, own in rivals.items():
            if "error" in own:
                rows.append([size, name, own["error"].replace("|", "/"), *["–"] * 7])
                continue
            times = [number(own[key] * 1e3) for key in ("seconds", "run_seconds")]
            ratios = [number(own.get(key), 2) for key in ("ratio", "run_ratio")]
            memory = number(own["bytes"] / GIBIBYTE) if "bytes" in own else "–"
            rates = [number(own["tokens_per_second"], 0), number(own.get("tflops"))]
            first = number(own.get("first_step_seconds"))
            rows.append([size, name, *times, *ratios, *rates, memory, first])
    return rows


def process_rows(result: Result) -> list[list[str]]:
    """Return the lines of the table of one result of processes."""
    return [
        [
            size,
            name,
            *(number(own[key] * 1e3, 2) for key in ("seconds", "run_seconds")),
            *(number(own.get(f"{key}_ratio"), 3) for key in ("seconds", "run_seconds")),
        ]
        for size, cases in result["sizes"].items()
        for name, own in cases.items()
    ]


def step_remarks(result: Result) -> list[str]:
    """Return how palbert computed the steps, if known."""
    return [
        f"{name}, {size} rows: {own['execution']}"
        for size, rivals in result["sizes"].items()
        for name, own in rivals.items()
        if own.get("execution")
    ]


def method_remarks(results: Sequence[Result]) -> list[str]:
    """Return which methods' steps were not captured, and which methods failed."""
    remarks = []
    for result in of_benchmark(results, "methods"):
        how = {name: text for name, text in result.get("execution", {}).items() if "without CUDA graphs" in text}
        failed = {**how, **result.get("errors", {})}
        remarks += [f"{name} ({setting_of(result)}): {text}" for name, text in failed.items()]
    return remarks


def growth_facts(results: Sequence[Result]) -> dict[str, Any]:
    """Return the tables of the first growth result."""
    found = of_benchmark(results, "growth")[:1]
    axes: list[dict[str, Any]] = []
    for result in found:
        points: dict[str, list[dict[str, Any]]] = {}
        for point in result["points"]:
            points.setdefault(point["axis"], []).append(point)
        axes += [{"name": axis, **_columns(own)} for axis, own in points.items()]
    start = "".join(
        f"{result['batch_size']} rows of one task, the shape {result['shape']} and mixed lengths on {place_of(result)}"
        for result in found
    )
    return {"start": start, "axes": axes}


def large_facts(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the numbers of the sets that are larger than the memory, and what they are for 50 million rows."""
    return [_large(result) for result in of_benchmark(results, "large_data")]


def _large(result: Result) -> dict[str, Any]:
    steps = result["steps"]
    first = steps["build"]
    by_clock, by_core = (first["rows"] / first[key] for key in ("seconds", "core_seconds"))
    return {
        "rows": number(first["rows"], 0),
        "tokens": number(first["tokens"] / first["rows"], 0),
        "shards": result["shards"],
        "gibibytes": [number(size / GIBIBYTE, 2) for size in (result["shard_bytes"], first["cache_bytes"])],
        "limit": number(result["limit"] / 2**20, 0),
        "limited_by": result["limited_by"],
        "rates": [number(rate, 0) for rate in (by_clock, by_core)],
        "share": number(100 * first["core_seconds"] / (first["seconds"] * result["cores"]), 0),
        "hours": [number(STATED_ROWS / rate / 3600, 2) for rate in (by_clock, by_core)],
        "own": {name: number(own["own_bytes"] / 2**20, 0) for name, own in steps.items()},
        "place": place_of(result),
    }


def steady_facts(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the memory of runs after a tenth of their steps and at the end."""
    return [
        {
            "steps": number(result["steps"], 0),
            "first_steps": number(result["steps"] / 10, 0),
            **{name: number(result[f"{name}_bytes"] / 2**20, 1) for name in ("first", "last", "most")},
            "place": place_of(result),
        }
        for result in of_benchmark(results, "steady_memory")
    ]


def serving_facts(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return the table of each result of services."""
    return [
        {
            "heading": f"{place_of(result)}, {result['encoder']}:",
            "rows": [
                [name, clients, *_service(own)]
                for name, sizes in result["servers"].items()
                for clients, own in sizes.items()
            ],
            "offline": [[name, number(rate)] for name, rate in result["offline_texts_per_second"].items()],
        }
        for result in of_benchmark(results, "serving")
    ]


def _service(own: dict[str, float]) -> list[str]:
    """Return requests per second, latencies in ms and processor time in ms."""
    times = [number(own[f"{name}_seconds"] * 1e3) for name in ("p50", "p99")]
    return [number(own["requests_per_second"]), *times, number(own["cpu_seconds_per_request"] * 1e3, 2)]


def _columns(points: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the columns of the points along one axis; a point that failed has its error instead of a time."""
    return {
        "values": [str(point["value"]) for point in points],
        "times": [point["error"].split(":")[0] if "error" in point else _time(point) for point in points],
        "tokens": [number(point.get("tokens"), 0) for point in points],
        "memory": [
            number(point["reserved_bytes"] / GIBIBYTE) if "reserved_bytes" in point else "–" for point in points
        ],
    }


def _time(point: dict[str, Any]) -> str:
    return number(point["run_seconds"] * 1e3)


def missed(outcomes: Sequence[Outcome]) -> list[str]:
    """Return why goals were missed, each goal once."""
    remarks = {
        outcome.what: outcome.why or "why is not known yet" for outcome in outcomes if outcome.verdict == "missed"
    }
    return [f"{what}: {why}." for what, why in remarks.items()]


def machines(results: Sequence[Result]) -> list[str]:
    """Return benchmark, machine and versions of every result."""
    lines = []
    for result in results:
        versions = result.get("versions") or {"torch": result.get("torch", "?")}
        named = ", ".join(f"{name} {version}" for name, version in versions.items())
        lines.append(f"{result['benchmark']}: {place_of(result)}; {named}")
    return list(dict.fromkeys(lines)) or [NOT_MEASURED]


def render(results: Sequence[Result]) -> str:
    """Return the page."""
    outcomes = judge(results)
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    steps = of_benchmark(results, "train_step")
    growth = growth_facts(results)
    environment = jinja2.Environment(keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    page = environment.from_string(TEMPLATE.read_text("utf-8")).render(
        goals=outcomes,
        count={"met": verdicts["met"], "missed": verdicts["missed"], "unmeasured": verdicts[NOT_MEASURED]},
        missed=missed(outcomes),
        steps=[
            {
                "heading": f"{place_of(each)}, shape {each['shape']}:",
                "rows": step_rows(each),
                "remarks": step_remarks(each),
            }
            for each in steps
        ],
        processes=[
            {"heading": f"{place_of(each)}, shape {each['shape']}:", "rows": process_rows(each)}
            for each in of_benchmark(results, "processes")
        ],
        captured=all(each.get("capture") for each in steps),
        growth=growth,
        method_remarks=method_remarks(results),
        large=large_facts(results),
        steady=steady_facts(results),
        serving=serving_facts(results),
        plots=plot_names(results),
        machines=machines(results),
    )
    return page.rstrip() + "\n"


def plot_names(results: Sequence[Result]) -> list[str]:
    """Return the plots that there are results for."""
    measured = {
        "step": any("seconds" in own for each in of_benchmark(results, "train_step")[:1] for own in _rivals(each)),
        "growth": any("seconds" in point for each in of_benchmark(results, "growth")[:1] for point in each["points"]),
        "methods": any(each["ratios"] for each in of_benchmark(results, "methods")),
        "serving": any(each["servers"] for each in of_benchmark(results, "serving")),
    }
    return [name for name, there in measured.items() if there]


def _rivals(result: Result) -> list[dict[str, Any]]:
    return [own for rivals in result["sizes"].values() for own in rivals.values()]


def main(given: list[str] | None = None) -> None:
    """Write the page and draw the plots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--no-plots", action="store_true", help="write only the page")
    arguments = parser.parse_args(given)
    results = read_results(arguments.results)
    arguments.docs.mkdir(parents=True, exist_ok=True)
    (arguments.docs / "performance.md").write_text(render(results), encoding="utf-8")
    if not arguments.no_plots:
        from performance_plots import draw  # matplotlib takes a while to import

        draw(results, plot_names(results), arguments.docs / "images")


if __name__ == "__main__":
    main()
