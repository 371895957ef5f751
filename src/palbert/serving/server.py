"""Server: processes that listen, from settings to the last answer."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import uvicorn
from uvicorn.server import HANDLED_SIGNALS

from palbert.errors import PalbertError
from palbert.runtime.collector import resume_collector
from palbert.runtime.stop_signals import terminate_as_interrupt
from palbert.serving.app import build_app
from palbert.serving.audit_log import AuditLog, default_log
from palbert.serving.connections import Config, allow_connections
from palbert.serving.engine import Engine
from palbert.serving.keys import Keys
from palbert.serving.limits import RateLimits
from palbert.serving.metrics import FOLDER, Metrics
from palbert.serving.model import open_model
from palbert.serving.runs import Runs, warm_up
from palbert.serving.service import Service
from palbert.serving.settings import Settings
from palbert.serving.workers import Workers

log = logging.getLogger(__name__)


def run_server(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C; requests that have begun are answered."""
    start = time.monotonic()
    with _listening(settings) as listener, _shared_metrics(settings):
        address = _address(listener)
        settings = replace(settings, port=listener.getsockname()[1])

        def say_ready() -> None:
            _say_ready(settings, address, time.monotonic() - start)

        if settings.workers > 1:
            resume_collector()
            config = _config("palbert.serving.workers:worker_app", settings)
            Workers(config, [listener], settings, say_ready).run()
        else:
            with _reloads_noted() as wanted:
                with terminate_as_interrupt():  # nothing has begun that would have to be answered
                    service = build_service(settings)
                service.reload_wanted = wanted
                server = Server(_config(build_app(service), settings), service)
                with _stopped_by_signals(server):
                    say_ready()
                    server.run([listener])
    log.info("Stopped.")


def build_service(settings: Settings) -> Service:
    """Load what is served."""
    allow_connections()
    _share_cores(settings.workers)
    keys = Keys(settings.keys) if settings.keys else None  # a wrong file of keys is found before models are loaded
    models = [
        open_model(
            name, folder, checkpoint=settings.checkpoint, device=settings.device, precision=settings.precision,
            trust=settings.trust,
        )
        for name, folder in settings.runs
    ]  # fmt: skip
    metrics = Metrics()
    service = Service(
        settings=settings,
        runs=Runs(models),
        engine=Engine(queue=settings.queue, wait=settings.wait, watcher=metrics),
        metrics=metrics,
        keys=keys,
        limits=_limits(settings),
        audit=_audit_logs(settings),
    )
    for model in models:
        warm_up(model)
    resume_collector()
    return service


class Server(uvicorn.Server):
    """uvicorn's server, which says that it drains as soon as it is told to stop."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop accepting requests."""
        self.service.is_draining = True
        super().handle_exit(sig, frame)


def _config(app: Any, settings: Settings) -> Config:
    return Config(
        app,
        factory=isinstance(app, str),
        host=settings.host,
        port=settings.port,
        patience=settings.read_timeout,
        loop="auto",  # uvloop where it is installed
        ws="none",
        workers=settings.workers,
        log_config=None,
        log_level="error",  # what clients do wrong is counted, not logged
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=settings.proxies or None,
        timeout_graceful_shutdown=max(1, round(settings.drain)),
        timeout_worker_healthcheck=60,
    )


@contextlib.contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """Open the socket that requests come to."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(2048)
        listener.set_inheritable(True)
        yield listener
    except (OSError, OverflowError) as error:
        if listener.fileno() != -1 and listener.getsockname()[1] == 0:
            raise PalbertError(
                f"Cannot listen on {settings.host}, port {settings.port}: {error}.", hint="Take another --port."
            ) from error
        raise
    finally:
        listener.close()


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _say_ready(settings: Settings, address: str, seconds: float) -> None:
    names = ", ".join(name for name, _ in settings.runs)
    processes = f" with {settings.workers} processes" if settings.workers > 1 else ""
    log.info("Serving %s at %s%s after %.1f s", names, address, processes, seconds)
    if settings.is_open:
        log.info("Without API keys, only this machine may ask. To let others in: palbert serve key add NAME")
    if settings.audit != "off":
        what = "all texts and answers" if settings.audit == "texts" else "hashes of texts, and all answers"
        files = ", ".join(sorted({str(_log_path(settings, folder)) for _, folder in settings.runs}))
        log.info("%s are logged in %s (--audit off keeps nothing)", what.capitalize(), files)


def _share_cores(workers: int) -> None:
    if workers > 1:
        torch.set_num_threads(max(1, torch.get_num_threads() // workers))


def _limits(settings: Settings) -> RateLimits | None:
    """Return the limits of one process: clients' connections are spread over all of them."""
    if not settings.rate:
        return None
    burst = settings.burst or 10 * settings.rate
    return RateLimits(settings.rate / settings.workers, max(1, round(burst / settings.workers)))


def _log_path(settings: Settings, folder: Path) -> Path:
    return settings.audit_log or default_log(folder)


def _audit_logs(settings: Settings) -> dict[str, AuditLog]:
    """Open the audit log of each run; runs may share one."""
    if settings.audit == "off":
        return {}
    paths = {name: _log_path(settings, folder) for name, folder in settings.runs}
    logs = {
        path: AuditLog(path, keep=settings.audit, days=settings.audit_days or None, when_full=settings.audit_full)
        for path in set(paths.values())
    }
    return {name: logs[path] for name, path in paths.items()}


@contextlib.contextmanager
def _shared_metrics(settings: Settings) -> Iterator[None]:
    """Give several processes a folder in which they add up their metrics."""
    if settings.workers == 1 or FOLDER in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="palbert-metrics-") as folder:
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]


@contextlib.contextmanager
def _reloads_noted() -> Iterator[threading.Event]:
    """Note SIGHUP until the service runs and handles it itself: otherwise it ends the process."""
    wanted = threading.Event()
    if not hasattr(signal, "SIGHUP") or threading.current_thread() is not threading.main_thread():
        yield wanted
        return
    former = signal.signal(signal.SIGHUP, lambda *_: wanted.set())
    try:
        yield wanted
    finally:
        signal.signal(signal.SIGHUP, former)


@contextlib.contextmanager
def _stopped_by_signals(server: Server) -> Iterator[None]:
    """Take SIGTERM and Ctrl-C for a normal end; uvicorn raises them again when it has answered everything.

    Before, while models are loaded, they end the process as they end others.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.signal(number, server.handle_exit) for number in HANDLED_SIGNALS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
