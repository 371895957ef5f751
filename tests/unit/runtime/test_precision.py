"""Devices and precisions: what this machine has, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from palbert.errors import DeviceError
from palbert.runtime import precision
from palbert.runtime.precision import arithmetic, choose_device, choose_precision, set_products

CPU, CUDA, MPS = torch.device("cpu"), torch.device("cuda"), torch.device("mps")


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
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_a_missing_device_is_refused_with_a_remedy(name: str) -> None:
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
    with pytest.raises(DeviceError, match=r"'cuda:2', but there are 2 CUDA devices"):
        choose_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "", "CPU"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(DeviceError, match="Unknown device"):
        choose_device(name)


@pytest.fixture
def probed() -> Iterator[None]:
    """Clear the result of the probe, before and after."""
    precision._probe_bf16.cache_clear()
    yield
    precision._probe_bf16.cache_clear()


@pytest.mark.usefixtures("probed")
@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "Illegal instruction"),
        ("raise RuntimeError('no bf16 here')", "no bf16 here"),
    ],
)
def test_bf16_on_a_processor_that_crashes_is_refused_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, step: str, found: str
) -> None:
    monkeypatch.setattr(precision, "BF16_STEP", step)
    with pytest.raises(DeviceError, match=rf"'bf16'.*{found}.*run\.precision = \"fp32\""):
        choose_precision("bf16", CPU)


@pytest.mark.usefixtures("probed")
def test_bf16_is_used_on_a_processor_that_passes_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "BF16_STEP", "pass")
    assert choose_precision("bf16", CPU) == "bf16"


@pytest.mark.parametrize(("name", "device"), [("fp16", CPU), ("tf32", CPU), ("fp16", MPS), ("bf16", MPS)])
def test_precisions_that_need_cuda_are_refused_elsewhere(name: str, device: torch.device) -> None:
    with pytest.raises(DeviceError, match=rf"'{name}'.*CUDA only.*run\.precision = \"fp32\""):
        choose_precision(name, device)  # type: ignore[arg-type]


def test_tf32_sets_the_precision_of_matrix_products() -> None:
    try:
        set_products("tf32")
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        set_products("fp32")
    assert torch.get_float32_matmul_precision() == "highest"
    with arithmetic("tf32", CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


@pytest.mark.usefixtures("two_cards")
@pytest.mark.parametrize(
    ("name", "device", "expected"),
    [
        ("auto", CPU, "fp32"),
        ("fp32", CPU, "fp32"),
        ("auto", CUDA, "bf16"),
        ("bf16", CUDA, "bf16"),
        ("fp32", CUDA, "fp32"),
        ("tf32", CUDA, "tf32"),
        ("fp16", CUDA, "fp16"),
    ],
)
def test_a_precision_is_chosen_by_name_and_device(name: str, device: torch.device, expected: str) -> None:
    assert choose_precision(name, device) == expected  # type: ignore[arg-type]


def test_an_old_card_computes_in_fp16(two_cards: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    assert choose_precision("auto", CUDA) == "fp16"


@pytest.mark.parametrize(("name", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_matrix_products_use_the_chosen_precision(name: str, dtype: torch.dtype) -> None:
    with arithmetic(name, CPU):  # type: ignore[arg-type]
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_int8_is_for_the_cpu() -> None:
    with pytest.raises(DeviceError, match=r"'int8'.* the device is 'cuda'.*--device cpu"):
        choose_precision("int8", CUDA)


def test_int8_needs_a_cpu_with_byte_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_vnni": True})
    assert choose_precision("int8", CPU) == "int8"
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_vnni": False})
    with pytest.raises(DeviceError, match=r"'int8'.*VNNI.*Use fp32"):
        choose_precision("int8", CPU)
