"""Page routes: the page of the service, the files it is made of, and the reports of runs."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parent / "page"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}

COMMON = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; frame-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""Scripts and styles are files of this server, and nothing may turn a text into markup."""
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A report has its styles and scripts inside. The sandbox keeps it apart from the page and from the key kept there."""


@dataclass(frozen=True)
class PageFile:
    """A file of the page, as it is sent."""

    body: bytes
    headers: Mapping[str, str]


def page_files() -> dict[str, PageFile]:
    """Read the files of the page; return them by the path they are served at.

    None of them needs a key: the page asks for one when it is needed.
    """
    files = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in KINDS:
            policy = REPORT_POLICY if path.name == "page.report.html" else PAGE_POLICY
            served_at = "/" if path.name == "index.html" else f"/{path.name}"
            files[served_at] = _page_file(path.read_bytes(), KINDS[path.suffix], policy)
    return files


def page_routes(reports: Mapping[str, Path], files: Mapping[str, PageFile] | None = None) -> list[Route]:
    """Return the routes of the page, of its files, and of `/report/{run}`.

    Args:
        reports: The report of each run by the run's name; read at each request, so that it may change.
        files: The files of the page, those of `page_files` unless given.
    """

    async def report(request: Request) -> Response:
        path = reports.get(request.path_params["run"])
        try:
            body = None if path is None else await to_thread.run_sync(path.read_bytes)
        except OSError:
            body = None
        if body is None:
            raise HTTPException(404, f"Run '{request.path_params['run']}' has no report.")
        return _answer(request, _page_file(body, KINDS[".html"], REPORT_POLICY, cache="private, no-cache"))

    served = page_files() if files is None else files
    pages = [Route(path, _endpoint(file), name=f"page {path}") for path, file in served.items()]
    return [*pages, Route("/report/{run}", report, name="report")]


def _endpoint(file: PageFile) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return _answer(request, file)

    return endpoint


def _page_file(body: bytes, kind: str, policy: str, *, cache: str = "no-cache") -> PageFile:
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    own = {"Content-Type": kind, "Content-Security-Policy": policy, "Cache-Control": cache, "ETag": tag}
    return PageFile(body, COMMON | own)


def _answer(request: Request, file: PageFile) -> Response:
    """Send a file, or only its headers if the browser has it already."""
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")}
    if known & {"*", file.headers["ETag"]}:
        return Response(status_code=304, headers=file.headers)
    return Response(file.body, headers=file.headers)
