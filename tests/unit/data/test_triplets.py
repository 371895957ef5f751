"""Triplets: made from pairs and compared with hand-written files and a plain loop, or read directly."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palbert.build import load_rows
from palbert.data.dataset import Dataset
from palbert.data.ragged import Ragged
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError
from palbert.tasks.catalog import CATALOG
from palbert.tasks.sets import sets_of
from palbert.tasks.spec import Task

NLI = """premise	hypothesis	label
a dog runs	an animal moves	entailment
a man sings	nobody sings	contradiction
a dog runs	it is brown	neutral
a dog runs	a cat sleeps	contradiction
a man sings	somebody sings	entailment
a dog runs	a dog moves	entailment
a dog runs	nothing moves	contradiction
a dog runs	it is a dog	entailment
it rains	it is wet	entailment
it snows	it is hot	contradiction
it hails	it is cold	-
"""


def read(path: Path, tokenizer: TextTokenizer, **given: Any) -> Dataset:
    """Read triplets for a joint pair with numbers as labels, which do not affect them."""
    extra = {"nli": {"train": str(path), "form": "triplets", **given}}
    task = Task.model_validate({"name": "sts", **CATALOG["sts"], "extra": extra})
    return load_rows(sets_of(task)["sts+nli"], tokenizer)


def rows(dataset: Dataset) -> list[tuple[str, ...]]:
    return list(zip(*dataset.texts, strict=True))


def test_entailments_of_a_premise_are_combined_with_its_contradictions_in_file_order(
    tmp_path: Path, tokenizer: TextTokenizer
) -> None:
    path = tmp_path / "nli.tsv"
    path.write_text(NLI, "utf-8")
    for _ in range(2):  # the second time from the cache
        found = read(path, tokenizer)
        assert rows(found) == [
            ("a dog runs", "an animal moves", "a cat sleeps"),
            ("a man sings", "somebody sings", "nobody sings"),
            ("a dog runs", "a dog moves", "nothing moves"),
        ]
        assert found.labels is None and len(found) == 3
        assert (found.unmapped, found.unpaired) == (2, 2)  # neutral and "-"; rain and snow
        assert list(found.ids) == ["0", "3", "4"]
        for texts, tokens in zip(found.texts, found.tokens, strict=True):
            expected = tokenizer(list(texts))
            found_tokens = Ragged.concatenate([tokens])
            assert found_tokens.values.tolist() == expected.values.tolist()
            assert found_tokens.offsets.tolist() == expected.offsets.tolist()


def test_triplets_of_many_pairs_equal_those_of_a_plain_loop(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    generator = np.random.default_rng(0)
    pairs = [
        (f"premise {generator.integers(60)}", f"text {number}", str(generator.choice(["yes", "no", "maybe"])))
        for number in range(500)
    ]
    lines = ["\t".join(pair) for pair in pairs]
    (tmp_path / "pairs.tsv").write_text("\n".join(["one\ttwo\tgold", *lines]) + "\n", "utf-8")
    labels = {"yes": "entailment", "no": "contradiction", "maybe": "drop"}
    found = read(tmp_path / "pairs.tsv", tokenizer, text=["one", "two"], label="gold", labels=labels)

    waiting: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"yes": [], "no": [], "maybe": []})
    for premise, text, label in pairs:
        waiting[premise][label].append(text)
    expected = {
        (premise, *both) for premise, texts in waiting.items() for both in zip(texts["yes"], texts["no"], strict=False)
    }
    assert set(rows(found)) == expected and len(found) == len(expected)
    numbers = [int(row[1].split()[1]) for row in rows(found)]
    assert numbers == sorted(numbers)


def test_three_columns_are_read_as_triplets_without_a_label(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    path = tmp_path / "triplets.csv"
    path.write_text('sent0,sent1,hard_neg\na dog,"an animal, small",a cat\na man,somebody,\nit,this,that\n', "utf-8")
    columns = ["sent0", "sent1", "hard_neg"]
    found = read(path, tokenizer, text=columns, bad_rows="drop")
    assert rows(found) == [("a dog", "an animal, small", "a cat"), ("it", "this", "that")]
    assert found.labels is None and (found.dropped, found.unpaired) == (1, 0)
    with pytest.raises(DataError, match=r"triplets\.csv, line 3: the column 'hard_neg' is empty"):
        read(path, tokenizer, text=columns)


def test_pairs_that_form_no_triplet_are_refused(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    path = tmp_path / "nli.tsv"
    path.write_text("premise\thypothesis\tlabel\na\tb\tentailment\nc\td\tcontradiction\n", "utf-8")
    with pytest.raises(DataError, match=r"nli\.tsv: no premise has both an entailment and a contradiction"):
        read(path, tokenizer)
    path.write_text("premise\thypothesis\tlabel\na\tb\tunknown\n", "utf-8")
    with pytest.raises(DataError, match=r"line 2: expected one of entailment, contradiction, neutral, -"):
        read(path, tokenizer)
