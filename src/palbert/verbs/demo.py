"""Demo: the three questions that `palbert demo` asks its trained model, one per task."""

from __future__ import annotations

QUESTIONS: list[tuple[str, str | tuple[str, str]]] = [
    ("sst", "The soup arrived cold and nobody seemed to care."),
    ("quora", ("How can I sleep better at night?", "What helps you get a good night's rest?")),
    ("sts", ("A cyclist rides through heavy rain.", "Someone is on a bike in the pouring rain.")),
]
