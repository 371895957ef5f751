"""Devices and number formats."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Literal, get_args

import torch

from palbert.errors import DeviceError

Precision = Literal["fp32", "tf32", "bf16", "fp16", "int8"]

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""The formats that forward passes are autocast to."""
BF16_STEP = """
import torch
layer = torch.nn.Linear(256, 256)
with torch.autocast("cpu", dtype=torch.bfloat16):
    layer(torch.ones(64, 256)).sum().backward()
assert layer.weight.grad.isfinite().all()
"""
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


def choose_precision(name: Literal["auto"] | Precision, device: torch.device) -> Precision:
    """Return the number format: on CUDA by default bf16, or fp16 on cards without it; elsewhere fp32."""
    if name == "auto":
        if device.type != "cuda":
            return "fp32"
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    if name not in get_args(Precision):
        raise DeviceError(f"Unknown precision '{name}'.", hint=f"Known: auto, {', '.join(get_args(Precision))}.")
    elsewhere = ("fp32", "bf16", "int8") if device.type == "cpu" else ("fp32", "int8")
    if device.type != "cuda" and name not in elsewhere:
        raise DeviceError(
            f"run.precision is '{name}', which palbert uses on CUDA only; the device is '{device}'.",
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
    if name == "bf16" and device.type == "cpu":
        _probe_bf16()
    return name


def has_int8() -> bool:
    """Whether this CPU multiplies bytes fast, and torch was built to make use of it."""
    found = torch.cpu.get_capabilities()
    return torch._C._has_mkldnn and any(found.get(name, False) for name in INT8_INSTRUCTIONS)


def arithmetic(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context that forward passes run in."""
    if precision in HALF:
        return torch.autocast(device.type, dtype=HALF[precision])
    return nullcontext()


def set_products(precision: Precision) -> None:
    """Say how exactly float32 matrices are multiplied: with 10 bits after the point for tf32, with all otherwise."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


@cache
def _probe_bf16() -> None:
    """Refuse bf16 on a processor that dies of it, which a child process finds out.

    Virtual machines may advertise instructions that they do not allow: the first product then ends the process.
    """
    probe = [sys.executable, "-c", BF16_STEP]
    done = subprocess.run(probe, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        how = signal.strsignal(-done.returncode) if done.returncode < 0 else done.stderr.strip().splitlines()[-1]
        raise DeviceError(
            f"run.precision is 'bf16', and a small training step in bf16 failed on this processor: {how}.",
            hint='Set run.precision = "fp32", or try ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment.',
        )


def _has_mps() -> bool:
    return torch.backends.mps.is_available()
