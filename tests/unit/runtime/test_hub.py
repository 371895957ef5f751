"""Names of the Hub, and what errors of sending say; fetching is tested with encoders and with runs."""

from __future__ import annotations

import pytest

from palbert.errors import DataError, HubError
from palbert.runtime.hub import HubId, push_errors


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bert-base-uncased", HubId("bert-base-uncased")),
        ("owner/name@v1.0", HubId("owner/name", "v1.0")),
        ("owner/name@refs/pr/1", HubId("owner/name", "refs/pr/1")),
        ("./name", None),
        ("~/name", None),
        ("a/b/c", None),
        ("a b/c", None),
        ("", None),
    ],
)
def test_names_are_read(name: str, expected: HubId | None) -> None:
    assert HubId.parse(name) == expected
    assert expected is None or str(expected) == name


class ConnectError(Exception):
    """As httpx calls it."""


def test_an_error_below_another_one_is_found() -> None:
    with pytest.raises(HubError, match="cannot be reached") as caught, push_errors("owner/name"):
        try:
            raise ConnectError("refused")
        except ConnectError as error:
            raise RuntimeError("Error while uploading") from error
    assert caught.value.exit_code == 1


def test_bugs_and_errors_of_palbert_are_not_hidden() -> None:
    with pytest.raises(KeyError), push_errors("owner/name"):
        raise KeyError("bug")
    with pytest.raises(DataError, match="mine"), push_errors("owner/name"):
        raise DataError("mine")


def test_a_hub_that_is_down_is_named_with_its_status() -> None:
    class HfHubHTTPError(Exception):
        response = type("Response", (), {"status_code": 503})()

    with pytest.raises(HubError, match=r"refuses it \(503\): Service unavailable"), push_errors("owner/name"):
        raise HfHubHTTPError("Service\nunavailable.")
