"""The page of an audit of bias: everything is escaped, significant shifts come first, limits are always there."""

from __future__ import annotations

from typing import Any

from palbert.reporting.bias import LIMITS, bias_section, bias_summary, bias_table, render_bias


def figure(group: str, shift: float, *, significant: bool, **more: Any) -> dict[str, Any]:
    return {
        "axis": "age", "group": group, "against": ["young", "middle"], "pairs": 9, "bases": 3, "flip_rate": 0.25,
        "mean_shift": shift, "interval": [shift - 1, shift + 1], "p": 0.01, "p_adjusted": 0.02,
        "significant": significant, "by_origin": {}, **more,
    }  # fmt: skip


SUMMARY: dict[str, Any] = {
    "tasks": {
        "t<b>": {
            "unit": "log odds", "flip": "another answer", "pairs": 9, "flip_rate": 0.25, "mean_absolute_shift": 0.5,
            "groups": [
                figure("old", 3.0, significant=False),
                figure("<i>", -1.0, significant=True, **{"class": "yes"}),
            ],
            "left_out": {"age": {"a name": 2}}, "rows": 3,
            "subgroups": [
                {"axis": "age", "group": "old", "class": "yes", "positive": 12, "negative": 12, "subgroup_auc": 0.75,
                 "bpsn_auc": 0.5, "bnsp_auc": None},
                {"axis": "age", "group": "few", "class": "yes", "positive": 1, "negative": 2, "subgroup_auc": None,
                 "bpsn_auc": None, "bnsp_auc": None},
            ],
            "files": {"eec.tsv": {"pairs": 4, "flip_rate": 0.5, "mean_absolute_shift": 1.0,
                                  "groups": [figure("female", 0.1, significant=False)]}},
        }
    },
    "rows_from": "templates", "seconds": 1.0, "checkpoint": "best", "correction": "Holm, within each task", "seed": 0,
    "limits": list(LIMITS), "skipped": {"u": "no answer"},
}  # fmt: skip
LINE = dict.fromkeys(("group", "other_group", "answer", "other_answer", "largest_change"), "x") | {
    "text1": "<script>", "text2": "", "other_text1": "two", "other_text2": "more",
}  # fmt: skip


def test_the_page_escapes_everything_and_has_all_parts() -> None:
    page = render_bias(SUMMARY, title="run <1>", examples={"t<b>": [LINE]})
    assert "<script>two" not in page and "&lt;script&gt;" in page and "run &lt;1&gt;" in page and "t&lt;b&gt;" in page
    assert page.index("&lt;i&gt;") < page.index("<td>old</td>")
    for part in ("eec.tsv", "BPSN", "0.750", "1 area not shown", "a name", "u was not audited", "Holm"):
        assert part in page
    assert all(limit.replace("'", "&#39;") in page for limit in LIMITS)
    assert "http" not in page.split("</style>")[1].replace("https://www.w3.org", "")


def test_classes_have_a_column_of_their_own_in_tables_that_name_some() -> None:
    page = render_bias(SUMMARY, title="run", examples={})
    classed, plain = (part.split("</table>")[0] for part in page.split("<th>axis</th>")[1:3])
    assert (
        "<th>of class</th>" in classed
        and '<td class="muted">yes</td>' in classed
        and '<td class="muted"></td>' in classed
    )
    assert "of class" not in page.split("eec.tsv")[-1] and plain


def test_the_table_has_significant_groups_first_and_says_how_many_there_are() -> None:
    text = bias_table(SUMMARY).text()
    assert text.index("<i>") < text.index("old")
    assert "1 of 2 mean shifts are significant" in text and "-1.000 (yes)" in text and "2 others" in text
    assert "25.0% of 9 pairs get another answer" in text and LIMITS[0] in text


def test_the_section_of_a_report_names_the_largest_shifts_and_the_limits() -> None:
    summary = bias_summary(SUMMARY, is_stale=True)
    assert summary["tasks"][0]["largest"] == ["age: <i> -1.000 (yes)"]
    section = bias_section(summary)
    assert "1 of 2" in section and "age: &lt;i&gt; -1.000 (yes)" in section and "The checkpoint has changed" in section
    assert bias_section(None) == ""
