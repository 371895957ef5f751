"""A hook of the documentation site: links that leave docs/ work on GitHub, and here they lead to a copy of the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Page, config: Any, files: Files) -> str:
    """Point links at copies of the files that are not pages; a link to a folder becomes plain text.

    A link that leads nowhere stays as it is: MkDocs reports it.
    """
    source = Path(page.file.abs_src_path or "")

    def rewrite(link: re.Match[str]) -> str:
        text, target, _ = link.groups()
        path = (source.parent / target).resolve()
        if path.is_relative_to(config.docs_dir) or not path.exists():
            return link[0]
        if path.is_dir():
            return text
        copy = f"files/{path.relative_to(ROOT).as_posix()}"
        if copy not in files.src_uris:
            files.append(File.generated(config, copy, abs_src_path=str(path)))
        up = "../" * page.file.src_uri.count("/")
        return f"[{text}]({up}{copy})"

    return LINK.sub(rewrite, markdown)
