"""The locked versions: complete for every supported Python, with hashes, and those of constraints.txt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
LOADER = "sentence-transformers"  # of the embedded encoder; palbert does not use it
EXTRAS = ("all", "minilm", "plots", "parquet", "excel", "tensorboard", "gradients", "sklearn", "serve")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def machine(python: str) -> dict[str, str]:
    """Return the environment that markers are evaluated in: Linux on x86_64."""
    linux = {"sys_platform": "linux", "platform_machine": "x86_64", "platform_system": "Linux", "os_name": "posix"}
    names = {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    return {**linux, **names, "python_version": python, "python_full_version": f"{python}.1", "extra": ""}


def versions(text: str, python: str) -> dict[str, str]:
    """Return the versions that a file of requirements pins for a release of Python, by package."""
    found: dict[str, str] = {}
    for line in re.findall(r"^[A-Za-z].*", text, re.MULTILINE):
        wanted = Requirement(line.rstrip(" \\"))
        if wanted.marker is None or wanted.marker.evaluate(machine(python)):
            [version] = [each.version for each in wanted.specifier]
            assert found.setdefault(canonicalize_name(wanted.name), version) == version, wanted.name
    return found


def lock(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-cpu.lock"])
def test_every_locked_version_has_hashes(name: str) -> None:
    entries = re.split(r"^(?=[A-Za-z])", lock(name).partition("\n")[2], flags=re.MULTILINE)[1:]
    assert len(entries) > 50
    assert [entry for entry in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry)] == []


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", ["requirements.lock", "requirements-cpu.lock"])
def test_the_locked_versions_are_those_that_are_tested(name: str, python: str) -> None:
    locked, tested = versions(lock(name), python), versions(lock("constraints.txt"), python)
    both = locked.keys() & tested.keys()
    assert len(both) > 10
    assert {package: locked[package] for package in both} == {package: tested[package] for package in both}


@pytest.mark.parametrize("python", PYTHONS)
def test_everything_that_palbert_needs_is_locked(python: str) -> None:
    project = tomllib.loads(lock("pyproject.toml"))["project"]
    locked = versions(lock("requirements.lock"), python)
    extras = [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    for wanted in map(Requirement, [*project["dependencies"], *extras]):
        if wanted.name != "palbert" and (wanted.marker is None or wanted.marker.evaluate(machine(python))):
            assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)]), wanted
    assert LOADER not in locked


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_for_the_cpu_leaves_out_torch_and_what_only_its_cuda_build_needs(python: str) -> None:
    full, cpu = versions(lock("requirements.lock"), python), versions(lock("requirements-cpu.lock"), python)
    apart = full.keys() - cpu.keys()
    assert cpu.items() <= full.items() and {"torch", "triton", "nvidia-cublas"} <= apart
    assert {name for name in apart if not re.match(r"torch$|triton$|cuda-|nvidia-", name)} == set()
