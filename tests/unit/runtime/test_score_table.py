"""The table of scores: it fits any width, and every score is there."""

from __future__ import annotations

import pytest

from palbert.runtime.score_table import Row, table_html, table_lines


def row(tasks: int, *, best: bool = True) -> Row:
    scores = {f"task-{number}": f"0.{500 + number}" for number in range(tasks)}
    return Row("1", "1,234", "0.812", scores=scores, overall="0.6543", best=best, time="12:05")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("tasks", [1, 3, 10])
def test_no_line_is_wider_than_asked_for_and_no_score_is_lost(tasks: int, width: int) -> None:
    lines = [line.plain for line in table_lines(row(tasks), width=width, header=True)]
    assert max(map(len, lines)) <= width
    shown = "\n".join(lines).split()
    assert {"1", "1,234", "0.812", "0.6543", "best", "12:05"} <= set(shown)
    for task, score in row(tasks).scores.items():
        assert shown.count(task) == shown.count(score) == 1


@pytest.mark.parametrize("width", [60, 200])
def test_names_of_tasks_have_no_effect_on_the_terminal(width: int) -> None:
    scores = {f"\x1b[{number}m": "0.500" for number in range(8)}
    shown = Row("1", "1", "0.8", scores=scores, overall="0.5", best=False, time="1:00")
    text = "".join(line.plain for line in table_lines(shown, width=width, header=True))
    assert text.isprintable() and text.count(r"\u001b") == len(scores)


def test_columns_of_several_rows_stand_below_each_other() -> None:
    lines = [line.plain for line in table_lines(row(3), width=80, header=True)]
    lines += [line.plain for line in table_lines(row(3, best=False), width=80, header=False)]
    header, first, second = lines
    assert header.split() == ["epoch", "step", "loss", "task-0", "task-1", "task-2", "overall", "time"]
    for name, value in {"epoch": "1", "step": "1,234", "task-1": "0.501", "overall": "0.6543", "time": "12:05"}.items():
        end = header.index(name) + len(name)
        assert first[:end].endswith(value) and second[:end].endswith(value)


def test_a_row_whose_tasks_do_not_fit_names_each_score() -> None:
    first, *scores = (line.plain for line in table_lines(row(10), width=60, header=False))
    assert "task-0" not in first and len(scores) > 1
    assert "task-9 0.509" in scores[-1]


def test_only_the_best_row_says_so() -> None:
    [line] = table_lines(row(1, best=False), width=80, header=False)
    assert "best" not in line.plain and not any(span.style for span in line.spans)


def test_long_names_are_cut_at_the_head_of_a_column() -> None:
    long = Row("1", "2", "", scores={"a-very-long-name-of-a-task": "0.5"}, overall="0.5", best=False, time="")
    header = table_lines(long, width=200, header=True)[0].plain
    assert "a-very-long…" in header


def test_html_has_the_same_cells_and_escapes_names() -> None:
    strange = Row("1", "2", "0.3", scores={"<b>": "0.4"}, overall="0.5", best=True, time="0:06")
    page = table_html([strange])
    assert "<th>&lt;b&gt;</th>" in page and "<th>overall</th>" in page
    assert [page.index(f"<td>{value}</td>") for value in ("1", "2", "0.3", "0.4", "0.5", "best", "0:06")] == sorted(
        page.index(f"<td>{value}</td>") for value in ("1", "2", "0.3", "0.4", "0.5", "best", "0:06")
    )
    assert table_html([]) == ""
