"""Devices and number formats."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch

from palbert.errors import DeviceError

Precision = Literal["fp32", "bf16", "int8"]

INT8_INSTRUCTIONS = ("avx512_vnni", "avx_vnni", "amx_int8")
"""What adds products of bytes in 32 bits; in the 16 bits of older instructions they may overflow."""


def choose_device(name: str) -> torch.device:
    """Return the device of that name, or the best one there is for "auto"."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu"
    if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", name):
        raise DeviceError(f"Unknown device '{name}'.", hint="Take auto, cpu, cuda, cuda:N or mps.")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DeviceError(
            f"The device is to be '{name}', and torch {torch.__version__} finds no CUDA device here.",
            hint='Set run.device = "cpu" (--device cpu for predict), or install a CUDA build of torch.',
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(f"The device is to be '{name}'; there are {torch.cuda.device_count()} CUDA devices.")
    if device.type == "mps" and not _has_mps():
        raise DeviceError("The device is to be 'mps', and this machine has none.", hint='Set run.device = "cpu".')
    return device


def choose_precision(name: Literal["auto", "fp32", "bf16", "int8"], device: torch.device) -> Precision:
    """Return the number format; bf16 is for CUDA, since many CPUs only pretend to have it, and int8 for the CPU."""
    if name == "auto":
        return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"
    if name == "bf16" and device.type != "cuda":
        raise DeviceError(
            f"run.precision is 'bf16', which palbert uses on CUDA only; the device is '{device}'.",
            hint='Set run.precision = "fp32" (--precision fp32 for predict).',
        )
    if name == "int8" and device.type != "cpu":
        raise DeviceError(
            f"The precision is to be 'int8', which is for the CPU; the device is '{device}'.",
            hint="Add --device cpu, or leave the precision to palbert.",
        )
    if name == "int8" and not has_int8():
        raise DeviceError(
            "The precision is to be 'int8', which needs a CPU with VNNI or AMX instructions; this one has neither.",
            hint="Take fp32.",
        )
    return name


def has_int8() -> bool:
    """Whether this CPU multiplies bytes fast, and torch was built to make use of it."""
    found = torch.cpu.get_capabilities()
    return torch._C._has_mkldnn and any(found.get(name, False) for name in INT8_INSTRUCTIONS)


def arithmetic(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context that forward passes run in."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


def _has_mps() -> bool:
    return torch.backends.mps.is_available()
