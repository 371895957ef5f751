"""Claims: they name rows that exist and a range that can fail, and all problems are reported together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from palbert.errors import RecipeError
from palbert.reproduction.claims import Claims, find_claims, load_claims

CLAIM = {"text": "PALs help.", "row": "mine/one:plain", "than": ["mine/one:frozen"], "least": 0.0}


def load(folder: Path, **claims: dict[str, Any]) -> Claims:
    path = folder / "recipes/claims.toml"
    path.write_text(tomli_w.dumps({"claims": claims}), "utf-8")
    return load_claims(path)


def test_claims_are_found_where_the_tables_are(folder: Path) -> None:
    assert find_claims() == Path("recipes/claims.toml")
    assert load(folder, pals=CLAIM).claims["pals"].metric == "overall"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"than": ["mine/one:none"]}, r"claims\.pals: no row 'none' in mine/one\. Known: frozen, plain"),
        ({"row": "mine/three:plain"}, r"claims\.pals: no table 'mine/three'"),
        ({"least": float("-inf")}, r"claims\.pals: every difference fits"),
        ({"least": 0.2, "most": 0.1}, r"claims\.pals: no difference fits: least is 0\.2, most is 0\.1"),
        ({"row": "first"}, r"claims\.pals\.row"),
        ({"metrc": "sst"}, r"claims\.pals\.metrc: unknown key\. Did you mean claims\.pals\.metric\?"),
    ],
)
def test_a_wrong_claim_is_refused_with_its_place(folder: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        load(folder, pals={**CLAIM, **change})
    assert "claims.toml: " in str(caught.value)


def test_all_wrong_claims_are_reported_together(folder: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load(folder, a={**CLAIM, "row": "mine/one:palin"}, b={**CLAIM, "least": float("-inf")})
    first, second = caught.value.message.splitlines()
    assert "claims.a: no row 'palin'" in first and "claims.b: every difference fits" in second


def test_every_named_row_is_listed_with_its_place(folder: Path) -> None:
    plots = {
        "curves": {"c": {"text": "T", "tasks": ["sst"], "rows": ["x/y:1"]}},
        "scores": {"s": {"text": "T", "metrics": ["sst"], "rows": ["x/y:2"]}},
        "labels": {"l": {"text": "T", "row": "x/y:3", "task": "sst"}},
        "answers": {"a": {"text": "T", "row": "x/y:4"}},
        "transfer": {"t": {"text": "T", "shared": "x/y:5", "alone": {"sst": "x/y:6"}}},
    }
    claims = Claims.model_validate({"claims": {"pals": CLAIM}, **plots})
    assert claims.rows == {
        "claims.pals": ("mine/one:plain", "mine/one:frozen"),
        "curves.c": ("x/y:1",),
        "scores.s": ("x/y:2",),
        "labels.l": ("x/y:3",),
        "answers.a": ("x/y:4",),
        "transfer.t": ("x/y:5", "x/y:6"),
    }
