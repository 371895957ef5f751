"""The routes of the page: what is sent, with which headers, and what is not sent again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from starlette.applications import Starlette
from starlette.testclient import TestClient

from palbert.serving.page_routes import FOLDER, page_files, page_routes

PAGES = ("/", "/page.report.html")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text("<title>Report of the demo</title>", "utf-8")
    return path


@pytest.fixture
def client(report: Path) -> Iterator[TestClient]:
    reports = {"demo": report, "a b": report, "gone": report.with_name("gone.html")}
    with TestClient(Starlette(routes=list(page_routes(reports)))) as client:
        yield client


def test_every_file_of_the_page_is_served_with_its_kind(client: TestClient) -> None:
    kinds = {"": "text/html", "html": "text/html", "css": "text/css", "js": "text/javascript"}
    assert len(page_files()) == len(list(FOLDER.iterdir())) >= 5
    for path, file in page_files().items():
        answer = client.get(path)
        assert answer.status_code == 200 and answer.content == file.body
        assert answer.headers["Content-Type"] == f"{kinds[path.rpartition('.')[2].strip('/')]}; charset=utf-8"


def test_every_answer_has_strict_headers(client: TestClient) -> None:
    for path in [*page_files(), "/report/demo"]:
        headers = client.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "no-cache" in headers["Cache-Control"]


def test_the_page_may_run_only_files_of_its_server(client: TestClient) -> None:
    policy = client.get("/").headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy and "http" not in policy


@pytest.mark.parametrize("path", ["/report/demo", "/page.report.html"])
def test_reports_are_sandboxed_away_from_the_page(client: TestClient, path: str) -> None:
    policy = client.get(path).headers["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'")
    assert "allow-same-origin" not in policy and "connect-src" not in policy


def test_the_page_has_no_script_or_style_of_its_own_and_names_no_other_server() -> None:
    page = page_files()["/"].body.decode()
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]* src=)", page) == []
    for path, file in page_files().items():
        assert re.findall(rb"https?://", file.body) == [], path


def test_no_script_of_the_page_turns_texts_into_markup() -> None:
    scripts = {path: file.body.decode() for path, file in page_files().items() if path.endswith(".js")}
    assert len(scripts) > 4
    written = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment"
    assert {path: re.findall(written, text) for path, text in scripts.items() if re.search(written, text)} == {}


def test_what_the_files_name_is_served() -> None:
    files = page_files()
    for path, file in files.items():
        named = re.findall(r"""(?:src|href)="(page[^"#]+)"|from "\./(page[^"]+)";""", file.body.decode())
        assert {f"/{one or other}" for one, other in named} <= set(files), path


def test_a_file_that_the_browser_has_is_not_sent_again(client: TestClient) -> None:
    for path in [*page_files(), "/report/demo"]:
        tag = client.get(path).headers["ETag"]
        for known in (tag, f'"other", W/{tag}', "*"):
            answer = client.get(path, headers={"If-None-Match": known})
            assert (answer.status_code, answer.content) == (304, b"")
            assert answer.headers["ETag"] == tag and "Content-Security-Policy" in answer.headers
        assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_report_that_changes_is_sent_anew(client: TestClient, report: Path) -> None:
    before = client.get("/report/demo")
    report.write_text("<title>Another</title>", "utf-8")
    after = client.get("/report/demo", headers={"If-None-Match": before.headers["ETag"]})
    assert after.status_code == 200 and after.text == "<title>Another</title>"


def test_a_report_is_found_by_the_name_of_its_run_alone(client: TestClient) -> None:
    assert client.get("/report/a%20b").status_code == 200
    for name in ("unknown", "gone", "..%2Freport.html", "%2e%2e/report.html", ""):
        assert client.get(f"/report/{name}").status_code == 404, name


def test_pages_are_only_read(client: TestClient) -> None:
    for path in [*page_files(), "/report/demo"]:
        assert client.post(path).status_code == 405
        assert client.head(path).content == b""
