"""The file layer: every operation of this process that changes files below a folder, announced before it happens."""

from __future__ import annotations

import builtins
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

KINDS = ("open", "write", "truncate", "save", "fsync", "sync folder", "rename", "link", "unlink", "mkdir", "rmdir")
"""What an operation does; "save" is a file that safetensors or tokenizers write, whose single writes nobody sees."""


@dataclass(frozen=True)
class Operation:
    """Something that is about to happen to a file or folder."""

    number: int
    kind: str
    path: Path
    tear: Callable[[], object] | None = None
    """Do half of it, where it writes."""


class Layer:
    """Announces operations.

    Args:
        root: The folder; operations elsewhere are not announced.
        before: Called before each operation; it may raise an OSError in place of it, or end the process.
        after_sync: Called after a file or folder was flushed to the disk, with its descriptor.
    """

    def __init__(
        self, root: Path, before: Callable[[Operation], None], after_sync: Callable[[int], None] = lambda _: None
    ) -> None:
        self.root = root.resolve()
        self.before = before
        self.after_sync = after_sync
        self.count = 0

    def announce(self, kind: str, path: Path | None, tear: Callable[[], object] | None = None) -> None:
        """Announce an operation if its path is below the root."""
        if path is not None and path.is_relative_to(self.root):
            self.count += 1
            self.before(Operation(self.count - 1, kind, path, tear))

    def sees(self, path: Any) -> bool:
        """Whether a path, a name or a descriptor is below the root."""
        found = None if isinstance(path, int) else _located(path)
        return found is not None and found.is_relative_to(self.root)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Announce the operations of this block."""
        with (
            patch.multiple(os, **self._system_calls()),
            patch.multiple(shutil, **_PLAIN_COPIES),
            patch.object(io, "open", self._open),
            patch.object(builtins, "open", self._open),
            self._rust_writers(),
        ):
            yield

    def _system_calls(self) -> dict[str, Any]:
        return {
            "open": self._os_open,
            "fsync": self._fsync(os.fsync),
            "fdatasync": self._fsync(os.fdatasync),
            "rename": self._on_second("rename", os.rename, "dst_dir_fd"),
            "replace": self._on_second("rename", os.replace, "dst_dir_fd"),
            "link": self._on_second("link", os.link, "dst_dir_fd"),
            "unlink": self._on_first("unlink", os.unlink),
            "remove": self._on_first("unlink", os.remove),
            "mkdir": self._on_first("mkdir", os.mkdir),
            "rmdir": self._on_first("rmdir", os.rmdir),
        }

    def _on_first(self, kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, dir_fd: int | None = None, **settings: Any) -> Any:
            self.announce(kind, _located(path, dir_fd))
            return original(path, *arguments, dir_fd=dir_fd, **settings)

        return call

    def _on_second(self, kind: str, original: Callable[..., Any], folder: str) -> Callable[..., Any]:
        def call(source: Any, target: Any, **settings: Any) -> Any:
            self.announce(kind, _located(target, settings.get(folder)))
            return original(source, target, **settings)

        return call

    def _fsync(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        def call(file: Any) -> None:
            descriptor = file if isinstance(file, int) else file.fileno()
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            self.announce("sync folder" if path.is_dir() else "fsync", path)
            original(descriptor)
            if path.is_relative_to(self.root):
                self.after_sync(descriptor)

        return call

    def _os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & (os.O_CREAT | os.O_TRUNC):
            self.announce("open", _located(path, dir_fd))
        return _OS_OPEN(path, flags, mode, dir_fd=dir_fd)

    def _open(self, file: Any, mode: str = "r", buffering: int = -1, *arguments: Any, **settings: Any) -> Any:
        """Do what `open` does, with a file whose writes are announced."""
        if not set(mode) & set("wxa+") or not self.sees(file):
            return _OPEN(file, mode, buffering, *arguments, **settings)
        settings |= dict(zip(("encoding", "errors", "newline", "closefd", "opener"), arguments, strict=False))
        raw_mode = mode.replace("b", "").replace("t", "")
        own = {name: settings.pop(name) for name in ("closefd", "opener") if name in settings}
        self.announce("open", _located(file))
        raw = _AnnouncedFile(file, raw_mode, layer=self, **own)
        if buffering == 0:
            return raw
        buffered = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)  # type: ignore[type-var]
        return buffered if "b" in mode else io.TextIOWrapper(buffered, **settings, line_buffering=buffering == 1)

    @contextmanager
    def _rust_writers(self) -> Iterator[None]:
        """Announce what safetensors and tokenizers write."""
        import safetensors.torch

        from palbert.data.tokenizer import TextTokenizer

        serialize, save = vars(safetensors.torch)["serialize_file"], TextTokenizer.save

        def serialized(tensors: Any, filename: Any, **settings: Any) -> None:
            self.announce("save", _located(filename), _half(filename, lambda: serialize(tensors, filename, **settings)))
            serialize(tensors, filename, **settings)

        def saved(tokenizer: TextTokenizer, path: Path) -> None:
            self.announce("save", _located(path), _half(path, lambda: save(tokenizer, path)))
            save(tokenizer, path)

        with patch.object(safetensors.torch, "serialize_file", serialized), patch.object(TextTokenizer, "save", saved):
            yield


class _AnnouncedFile(io.FileIO):
    """An unbuffered file that announces each write."""

    def __init__(self, file: Any, mode: str, *, layer: Layer, **settings: Any) -> None:
        self.layer = layer
        super().__init__(file, mode, **settings)

    def write(self, content: Any, /) -> int:
        half = bytes(content)[: len(content) // 2]
        self.layer.announce("write", _located(self.name), lambda: super(_AnnouncedFile, self).write(half))
        return super().write(content)

    def truncate(self, size: int | None = None, /) -> int:
        self.layer.announce("truncate", _located(self.name))
        return super().truncate(size)


def _located(path: Any, folder: int | None = None) -> Path | None:
    """Return the absolute path of what a call names, without following a link at its end."""
    if isinstance(path, int):
        return Path(os.readlink(f"/proc/self/fd/{path}"))
    name = os.fsdecode(path)
    start = os.readlink(f"/proc/self/fd/{folder}") if folder is not None else os.getcwd()
    return Path(os.path.normpath(os.path.join(start, name)))


def _half(path: Any, write: Callable[[], object]) -> Callable[[], None]:
    def tear() -> None:
        write()
        os.truncate(path, os.stat(path).st_size // 2)

    return tear


_OPEN, _OS_OPEN = io.open, os.open
_PLAIN_COPIES: dict[str, Any] = {
    name: False for name in ("_USE_CP_SENDFILE", "_USE_CP_COPY_FILE_RANGE") if hasattr(shutil, name)
}
"""Settings of shutil: copies go through Python's files, where they are seen."""
