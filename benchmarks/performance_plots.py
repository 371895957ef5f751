"""The plots of docs/performance.md."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from goals import Result, place_of, setting_of
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

COLORS = ("#1f6fb2", "#8fbbe0", "#d1495b", "#edae49", "#66a182", "#7a5195", "#555555")
GIBIBYTE = 2**30
WITHOUT_A_MODEL = ("palbert, empty model", "Starlette alone")
"""Servers whose answers cost nothing."""
VARIANTS = (", three tasks", ", audit log")
"""Ends of the names of servers that are asked or set up differently."""
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "palbert",
    "font.size": 10.0,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "axes.edgecolor": "#999999",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "legend.frameon": False,
}


def draw(results: Sequence[Result], names: Sequence[str], folder: Path) -> list[Path]:
    """Draw the named plots to a folder; return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    drawers: dict[str, Callable[[Sequence[Result], Path], None]] = {
        "step": draw_step,
        "growth": draw_growth,
        "methods": draw_methods,
        "serving": draw_serving,
    }
    files = [folder / f"performance-{name}.svg" for name in names]
    for name, file in zip(names, files, strict=True):
        drawers[name](results, file)
    return files


@contextmanager
def figure(path: Path, width: float, height: float) -> Iterator[Figure]:
    """Open a figure of a size in inches that is saved to a file."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)  # type: ignore[arg-type]
        picture = Figure(figsize=(width, height), layout="constrained", facecolor="white")
        yield picture
        buffer = io.StringIO()
        # Without a date, the same results give the same file.
        picture.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    path.write_text(_short(buffer.getvalue()), encoding="utf-8")


def _short(document: str) -> str:
    """Remove what nobody sees: further decimals, indentation."""
    rounded = re.sub(r"\d+\.\d{3,}", lambda match: f"{float(match.group()):.2f}".rstrip("0").rstrip("."), document)
    return re.sub(r"\n +", "\n", rounded)


def draw_step(results: Sequence[Result], path: Path) -> None:
    """Draw the time of a step in a run by batch size, one bar per rival."""
    result = next(each for each in results if each["benchmark"] == "train_step")
    sizes = list(result["sizes"])
    names = list(dict.fromkeys(name for rivals in result["sizes"].values() for name in rivals))
    names = [name for name in names if any("seconds" in rivals.get(name, {}) for rivals in result["sizes"].values())]
    with figure(path, 7.5, 3.6) as picture:
        axes = picture.subplots()
        width = 0.8 / max(len(names), 1)
        for number, name in enumerate(names):
            for place, size in enumerate(sizes):
                own = result["sizes"][size].get(name, {})
                if "run_seconds" not in own:
                    continue
                x, height = place + (number - (len(names) - 1) / 2) * width, own["run_seconds"] * 1e3
                label = name if size == first_size(result, name) else None
                axes.bar(x, height, width * 0.9, color=COLORS[number % len(COLORS)], label=label)
                axes.annotate(f"{height:.3g}", (x, height), (0, 2), textcoords="offset points", ha="center", fontsize=8)
        axes.grid(visible=False, axis="x")
        axes.set_xticks(range(len(sizes)), [f"{size} rows" for size in sizes])
        axes.set_ylabel("ms a step, in a run")
        axes.set_title(f"{place_of(result)}, shape {result['shape']}: less is better")
        picture.legend(loc="outside lower center", ncols=3, fontsize=9)


def first_size(result: Result, name: str) -> str:
    """Return the first batch size at which a rival has a time."""
    return next(str(size) for size, rivals in result["sizes"].items() if "run_seconds" in rivals.get(name, {}))


def draw_growth(results: Sequence[Result], path: Path) -> None:
    """Draw time above memory, one column per thing that grows."""
    result = next(each for each in results if each["benchmark"] == "growth")
    columns = {"rows": ["rows"], "length": ["length"], "tasks": ["tasks in a step", "tasks in turn"]}
    columns["encoder"] = ["encoder"]
    points = [point for point in result["points"] if "run_seconds" in point]
    shown = {name: axes for name, axes in columns.items() if any(point["axis"] in axes for point in points)}
    measures = {"ms a step": ("run_seconds", 1e3)}
    if any("reserved_bytes" in point for point in points):
        measures["GiB"] = ("reserved_bytes", 1 / GIBIBYTE)
    with figure(path, 10.5, 1 + 2.3 * len(measures)) as picture:
        grid = picture.subplots(len(measures), len(shown), squeeze=False, sharex="col")
        for row, (label, (key, factor)) in enumerate(measures.items()):
            for column, (name, wanted) in enumerate(shown.items()):
                axes = grid[row][column]
                for number, axis in enumerate(wanted):
                    own = [point for point in points if point["axis"] == axis]
                    heights = [point[key] * factor for point in own]
                    _line(axes, [point["value"] for point in own], heights, number, axis if len(wanted) > 1 else None)
                axes.set_ylim(
                    0, 1.08 * max((point[key] * factor for point in points if point["axis"] in wanted), default=1)
                )
                if row == 0:
                    axes.set_title({"rows": "rows a step", "length": "tokens a sequence"}.get(name, name))
                if column == 0:
                    axes.set_ylabel(label)
                if row == 0 and len(wanted) > 1:
                    axes.legend(fontsize=8, loc="upper left")
        picture.suptitle(f"{place_of(result)}, from {result['batch_size']} rows, shape {result['shape']}", fontsize=10)


def _line(axes: Any, values: Sequence[Any], heights: Sequence[float], number: int, label: str | None) -> None:
    """Draw numbers on a logarithmic axis, with names next to each other."""
    color = COLORS[2 * number]
    if values and isinstance(values[0], str):
        axes.bar(range(len(values)), heights, 0.6, color=color)
        axes.set_xticks(range(len(values)), values)
        axes.grid(visible=False, axis="x")
        return
    axes.plot(values, heights, color=color, marker="o", markersize=4, label=label)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(values if len(values) < 7 else values[::2]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(plain_ticks())


def draw_methods(results: Sequence[Result], path: Path) -> None:
    """Draw the time of a step with each method, as a multiple of the plain step; one dot per setting."""
    found = [each for each in results if each["benchmark"] == "methods" and each["ratios"]]
    names = list(dict.fromkeys(name for each in found for name in each["ratios"]))
    with figure(path, 7.5, 1.4 + 0.2 * len(names)) as picture:
        axes = picture.subplots()
        axes.axvline(1.0, color="#555555", linewidth=1.0)
        for number, result in enumerate(found):
            own = [(own["seconds"], names.index(name)) for name, own in result["ratios"].items()]
            color = COLORS[(0, 3, 2, 4, 5, 6, 1)[number % 7]]
            axes.plot(*zip(*own, strict=True), "o", color=color, markersize=6, alpha=0.85, label=setting_of(result))
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(base=2))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(plain_ticks())
        axes.set_yticks(range(len(names)), names, fontsize=9)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlabel("time of a step, as a multiple of the plain step on the same batches")
        picture.legend(loc="outside upper center", ncols=1, fontsize=9)


def plain_ticks() -> FuncFormatter:
    """Write ticks as plain numbers, not as powers."""
    return FuncFormatter(lambda value, _: f"{value:g}")


def draw_serving(results: Sequence[Result], path: Path) -> None:
    """Draw throughput and latency by the number of clients, one line per server that answers with one task."""
    result = next(each for each in results if each["benchmark"] == "serving" and each["servers"])
    names = [name for name in result["servers"] if name not in WITHOUT_A_MODEL and not name.endswith(VARIANTS)]
    with figure(path, 10.5, 4.2) as picture:
        left, right = picture.subplots(1, 2)
        for number, name in enumerate(names):
            sizes, color = result["servers"][name], COLORS[number % len(COLORS)]
            clients = [int(size) for size in sizes]
            left.plot(clients, [own["requests_per_second"] for own in sizes.values()], "o-", color=color, label=name)
            for key, style in (("p50_seconds", "o-"), ("p99_seconds", "^:")):
                right.plot(clients, [own[key] * 1e3 for own in sizes.values()], style, color=color)
        for axes, title in ((left, "requests per second"), (right, "latency, ms: p50 (●) and p99 (▲)")):
            axes.set_xscale("log", base=2)
            axes.set_xticks(clients, [str(each) for each in clients])
            axes.set_xlabel("clients")
            axes.set_title(title)
        left.set_ylim(bottom=0)
        right.set_yscale("log")
        right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        picture.legend(loc="outside lower center", ncols=3, fontsize=9)
