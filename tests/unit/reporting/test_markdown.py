"""Markdown: values are shown as they are, whatever signs they have."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from palbert.reporting.markdown import escaped


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("macro_f1", r"macro\_f1"),
        ("a | b\n# c", r"a \| b \# c"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("[here](http://a.b)", r"\[here\](http://a.b)"),
        ("`x` *y* ~z~ $t$ & \\", r"\`x\` \*y\* \~z\~ \$t\$ &amp; \\"),
        ("\x1b[2J", r"\\u001b\[2J"),
        (3, "3"),
    ],
)
def test_what_markdown_would_take_for_markup_is_escaped(given: object, shown: str) -> None:
    assert escaped(given) == shown


def test_markup_stays_as_it_is() -> None:
    assert escaped(Markup("my_task")) == "my_task"
