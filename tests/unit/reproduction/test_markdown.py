"""Tables as Markdown: every cell with our score, the reported one and the difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palbert.reproduction.markdown import markdown_row, table_markdown
from palbert.reproduction.summaries import summarise

MakeResult = Callable[..., dict[str, Any]]


def row(name: str, results: list[dict[str, Any]], **own: Any) -> dict[str, Any]:
    return {"row": name, "label": name, "note": "", "reported": {}, "results": results, **own}


def test_a_table_shows_our_scores_reported_ones_and_the_difference(make_result: MakeResult) -> None:
    ours = [make_result(seed=seed, sst=value) for seed, value in enumerate((0.4, 0.6))]
    rows = [row("plain", ours, reported={"sst": 0.45}, note="Mind this."), row("frozen", [], reported={"sts": 0.7})]
    lines = table_markdown(summarise("mine/one", "My table", "Report, table 1", rows), level=3).splitlines()
    assert lines[:3] == ["### My table", "", "Report, table 1."]
    assert "|  | sst | sts | overall | seconds | parameters (trained) | seeds |" in lines
    assert (
        "| plain | 0.500 ± 0.141; reported 0.450 (+0.050) | 0.600 ± 0.000 | 0.650 ± 0.071 | 10 | 1,000 (1,000) | 2 |"
        in lines
    )
    assert "| frozen | – | reported 0.700 | – | – | – | not run |" in lines
    assert "- plain: Mind this." in lines
    assert "Each cell: our score; the reported one, and ours minus it." in lines


def test_a_table_without_reported_scores_explains_no_cells(make_result: MakeResult) -> None:
    text = table_markdown(summarise("mine/one", "My table", "", [row("plain", [make_result()])]))
    assert text.startswith("# My table\n\n|") and "Each cell" not in text


def test_a_bar_in_a_cell_does_not_end_the_cell() -> None:
    assert markdown_row(["a|b", "c"]) == "| a∣b | c |"
