"""The page of the soak: what was tried, and what to repeat if anything was lost."""

from __future__ import annotations

from pathlib import Path

from tests.soak import page
from tests.soak.trials import Tally, Trial

TRACEBACK = """Traceback (most recent call last):
  File "laws.py", line 50, in same_rows
AssertionError: [] was read for [' ']
Failing test case: law(
    rows=[{'0': ' '}],
)
Explanation:
    These lines were always and only run by failing test cases:
        excel.py:70
"""


def written(folder: Path, *attempts: dict[str, str]) -> str:
    tally = Tally()
    for attempt in attempts:
        tally.run(Trial("generated inputs", "JSON", "inputs", lambda attempt=attempt: attempt, 25))  # type: ignore[misc]
    tally.write(folder / "tally.json")
    page.write(folder / "page.md", Tally.read(folder / "tally.json"), seed=3, seconds=120)
    return (folder / "page.md").read_text("utf-8")


def test_a_page_without_findings_counts_what_was_tried(tmp_path: Path) -> None:
    found = written(tmp_path, {}, {})
    assert "| generated inputs | 50 |" in found
    assert "| **lost** | **0** |" in found
    assert "| JSON | 50 |" in found
    assert "## Findings" not in found


def test_a_finding_has_the_name_that_repeats_it_and_its_exception(tmp_path: Path) -> None:
    found = written(tmp_path, {"law:JSON:7": TRACEBACK, "fault:train:kill:3": "weights differ\n"})
    assert "| **lost** | **2** |" in found
    assert "- `law:JSON:7`: `` AssertionError: [] was read for [' '] ``\n" in found
    assert "- `fault:train:kill:3`: `` weights differ ``\n" in found
