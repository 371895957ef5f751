"""The local engine: blocks in order, each scored when it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from palbert.verbs.engines import Block, LocalEngine


class Lengths:
    """Answers with the length of each text."""

    def answers(self, columns: dict[str, list[str]]) -> dict[str, list[Any]]:
        return {"prediction": [len(text) for text in columns["text"]]}


def test_the_local_engine_reads_a_block_only_when_the_one_before_is_taken() -> None:
    texts = [["a", "bb"], ["ccc"]]
    read: list[list[str]] = []
    done: list[int] = []

    def blocks() -> Iterator[Block]:
        for rows in texts:
            read.append(rows)
            yield Block({"text": rows}, {"text": rows}, len(rows))

    scored = LocalEngine().run(
        cast(Any, Lengths()), blocks, source=Path("in.csv"), output=Path("out.csv"), advance=done.append
    )
    block, answers = next(scored)
    assert (block.texts, answers, read) == ({"text": ["a", "bb"]}, {"prediction": [1, 2]}, texts[:1])
    assert [answers for _, answers in scored] == [{"prediction": [3]}]
    assert done == [2, 1]
