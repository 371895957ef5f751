"""Devices and precisions: what this machine has, and what is refused."""

from __future__ import annotations

import pytest
import torch

from palbert.errors import DeviceError
from palbert.runtime import precision
from palbert.runtime.precision import arithmetic, choose_device, choose_precision

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this a machine without accelerators."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(precision, "_has_mps", lambda: False)


@pytest.fixture
def two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this a machine with two CUDA cards that have bf16."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_not_there_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(DeviceError, match=rf"'{name}'.*run\.device = \"cpu\"") as caught:
        choose_device(name)
    assert caught.value.exit_code == 2


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("name", ["auto", "cpu"])
def test_without_accelerators_everything_runs_on_the_cpu(name: str) -> None:
    assert choose_device(name) == CPU


@pytest.mark.usefixtures("two_cards")
@pytest.mark.parametrize(("name", "device"), [("auto", "cuda"), ("cuda:1", "cuda:1"), ("cpu", "cpu")])
def test_a_device_is_chosen_by_name(name: str, device: str) -> None:
    assert choose_device(name) == torch.device(device)


@pytest.mark.usefixtures("two_cards")
def test_a_card_beyond_the_last_is_refused_with_their_number() -> None:
    with pytest.raises(DeviceError, match=r"'cuda:2'; there are 2 CUDA devices"):
        choose_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "", "CPU"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(DeviceError, match="Unknown device"):
        choose_device(name)


def test_bf16_on_the_cpu_is_refused_with_what_to_do() -> None:
    with pytest.raises(DeviceError, match=r"'bf16'.*run\.precision = \"fp32\""):
        choose_precision("bf16", CPU)


@pytest.mark.usefixtures("two_cards")
@pytest.mark.parametrize(
    ("name", "device", "expected"),
    [
        ("auto", CPU, "fp32"),
        ("fp32", CPU, "fp32"),
        ("auto", CUDA, "bf16"),
        ("bf16", CUDA, "bf16"),
        ("fp32", CUDA, "fp32"),
    ],
)
def test_a_precision_is_chosen_by_name_and_device(name: str, device: torch.device, expected: str) -> None:
    assert choose_precision(name, device) == expected  # type: ignore[arg-type]


def test_an_old_card_computes_in_fp32(two_cards: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert choose_precision("auto", CUDA) == "fp32"


@pytest.mark.parametrize(("name", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_matrix_products_are_in_the_precision(name: str, dtype: torch.dtype) -> None:
    with arithmetic(name, CPU):  # type: ignore[arg-type]
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_int8_is_for_the_cpu() -> None:
    with pytest.raises(DeviceError, match=r"'int8'.* the device is 'cuda'.*--device cpu"):
        choose_precision("int8", CUDA)


def test_int8_needs_a_cpu_that_multiplies_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_vnni": True})
    assert choose_precision("int8", CPU) == "int8"
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_vnni": False})
    with pytest.raises(DeviceError, match=r"'int8'.*VNNI.*Take fp32"):
        choose_precision("int8", CPU)
