"""Devices and number formats: which are available, and the contexts that use them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Literal, get_args

import torch

from palbert.errors import DeviceError
from palbert.runtime.children import python_command

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
"""Instructions that add products of bytes in 32 bits; older ones use 16 bits, which may overflow."""


def choose_device(name: str) -> torch.device:
    """Return the named device; "auto" is the fastest available one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu"
    if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", name):
        raise DeviceError(f"Unknown device '{name}'.", hint="Known: auto, cpu, cuda, cuda:N, mps.")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DeviceError(
            f"The device is set to '{name}', but torch {torch.__version__} finds no CUDA device.",
            hint='Set run.device = "cpu" (--device cpu for predict), or install a CUDA build of torch.',
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(f"The device is set to '{name}', but there are {torch.cuda.device_count()} CUDA devices.")
    if device.type == "mps" and not _has_mps():
        raise DeviceError("The device is set to 'mps', but this machine has none.", hint='Set run.device = "cpu".')
    return device


def choose_precision(name: Literal["auto"] | Precision, device: torch.device) -> Precision:
    """Return the number format; "auto" is bf16 on CUDA, or fp16 on cards without it, and fp32 elsewhere."""
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
            f"The precision is set to 'int8', which needs the CPU; the device is '{device}'.",
            hint="Add --device cpu, or leave --precision out.",
        )
    if name == "int8" and not has_int8():
        raise DeviceError(
            "The precision is set to 'int8', which needs a CPU with VNNI or AMX instructions; this one has neither.",
            hint="Use fp32.",
        )
    if name == "bf16" and device.type == "cpu":
        _probe_bf16()
    return name


def has_int8() -> bool:
    """Whether this CPU has fast products of bytes, and torch was built to use them."""
    found = torch.cpu.get_capabilities()
    return torch._C._has_mkldnn and any(found.get(name, False) for name in INT8_INSTRUCTIONS)


def arithmetic(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context for forward passes."""
    if precision in HALF:
        return torch.autocast(device.type, dtype=HALF[precision])
    return nullcontext()


def set_products(precision: Precision) -> None:
    """Set the precision of float32 matrix products: 10 bits of mantissa for tf32, all otherwise."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


@cache
def _probe_bf16() -> None:
    """Raise DeviceError if a small bf16 step fails in a child process.

    Virtual machines may advertise instructions that they do not allow: the first product then kills the process.
    """
    probe = python_command(BF16_STEP)
    done = subprocess.run(probe, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        how = signal.strsignal(-done.returncode) if done.returncode < 0 else done.stderr.strip().splitlines()[-1]
        raise DeviceError(
            f"run.precision is 'bf16', but a small training step in bf16 failed on this processor: {how}.",
            hint='Set run.precision = "fp32", or try ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 in the environment.',
        )


def _has_mps() -> bool:
    return torch.backends.mps.is_available()
