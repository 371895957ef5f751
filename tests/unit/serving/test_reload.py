"""Reload: a new checkpoint takes the place of the served one; a bad one does not, and nothing is loaded twice."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from safetensors.torch import load_file, save_file
from starlette.testclient import TestClient
from tests.unit.serving.asking import ask, until
from tests.unit.serving.conftest import MakeService

from palbert.runtime.checksums import record_folder
from palbert.serving import reload as reload_module
from palbert.serving.app import build_app
from palbert.serving.model import ServedModel, open_model
from palbert.serving.reload import Reloader
from palbert.serving.service import Service

BODY = {"task": "sst", "texts": ["good"]}
Change = Callable[[dict[str, Any]], None]


def best(run: Path) -> Path:
    return run / "checkpoints" / "best"


def change_weights(run: Path, change: Change) -> None:
    """Write other weights into the best checkpoint, as a training that is continued does."""
    weights = load_file(best(run) / "model.safetensors")
    change(weights)
    save_file(weights, best(run) / "model.safetensors")
    (best(run) / "palbert.sha256").unlink()
    record_folder(best(run))


def always_negative(weights: dict[str, Any]) -> None:
    weights["heads.sst.output.bias"] = weights["heads.sst.output.bias"].clone()
    weights["heads.sst.output.bias"][0] += 100.0


def nowhere(weights: dict[str, Any]) -> None:
    weights["heads.sst.output.bias"] = weights["heads.sst.output.bias"] * float("nan")


@pytest.fixture
def service(served_copy: Path, make_service: MakeService, open_served: Any) -> Service:
    return make_service(open_served(served_copy))


def reload(service: Service, reloader: Reloader | None = None) -> str:
    """Look for new checkpoints once; return what the metrics say about it."""
    before = counts(service)
    asyncio.run((reloader or Reloader(service)).reload())
    [result] = [name for name, count in counts(service).items() if count > before.get(name, 0)]
    return result


def counts(service: Service) -> dict[str, float]:
    return {
        sample.labels["result"]: sample.value
        for family in service.metrics.reloads.collect()
        for sample in family.samples
        if sample.name == "palbert_reloads_total"
    }


def served(service: Service) -> ServedModel:
    return service.runs.get("demo")


def test_an_unchanged_checkpoint_is_not_loaded(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload_module, "open_model", pytest.fail)
    before = served(service)
    assert reload(service) == "unchanged" and served(service) is before


def test_a_new_checkpoint_takes_the_place_of_the_old_one(
    service: Service, served_copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = served(service)
    change_weights(served_copy, always_negative)
    with caplog.at_level(logging.INFO):
        assert reload(service) == "replaced"
    after = served(service)
    assert after.fingerprint != before.fingerprint and after.predictor.predict("sst", ["good"])[0].answer == "negative"
    assert service.runs.about()[0]["fingerprint"] == after.fingerprint
    assert f"serving {after.fingerprint} in place of {before.fingerprint}" in caplog.text
    assert "answers to examples differ" in caplog.text
    assert reload(service) == "unchanged"


def lose_a_file(run: Path) -> None:
    (best(run) / "model.safetensors").unlink()
    (best(run) / "palbert.sha256").write_text("", "utf-8")


def lose_everything(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")


def damage(run: Path) -> None:
    (best(run) / "model.safetensors").write_bytes(b"damaged")
    (best(run) / "palbert.sha256").unlink()
    record_folder(best(run))


def give_no_numbers(run: Path) -> None:
    change_weights(run, nowhere)


@pytest.mark.parametrize("spoil", [lose_a_file, lose_everything, damage, give_no_numbers])
def test_a_bad_checkpoint_keeps_the_old_one(
    spoil: Callable[[Path], None], service: Service, served_copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = served(service)
    spoil(served_copy)
    assert reload(service) == "failed" and served(service) is before
    assert "the new checkpoint is not served, the former one is" in caplog.text
    assert before.predictor.predict("sst", ["good"])


def test_an_unexpected_error_keeps_the_old_one(
    service: Service, served_copy: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = served(service)
    change_weights(served_copy, always_negative)
    for name in ("open_model", "check_examples"):
        with monkeypatch.context() as patch:
            patch.setattr(reload_module, name, lambda *_, **__: 1 / 0)
            assert reload(service) == "failed" and served(service) is before
    with monkeypatch.context() as patch:
        patch.setattr("palbert.serving.runs.describe", lambda *_, **__: 1 / 0)
        assert reload(service) == "failed" and served(service) is before


def test_what_failed_for_the_moment_is_tried_again_although_nothing_has_changed(
    service: Service, served_copy: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before, reloader = served(service), Reloader(service)
    change_weights(served_copy, always_negative)

    def without_memory(*_: Any, **__: Any) -> ServedModel:
        raise MemoryError("too little")

    with monkeypatch.context() as patch:
        patch.setattr(reload_module, "open_model", without_memory)
        assert [reload(service, reloader) for _ in range(2)] == ["failed"] * 2 and served(service) is before
    assert caplog.text.count("the former one is: MemoryError: too little") == 1
    assert reload(service, reloader) == "replaced" and served(service) is not before


def test_a_run_that_lacks_a_task_of_the_old_one_is_not_served(
    service: Service, monkeypatch: pytest.MonkeyPatch, served_copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change_weights(served_copy, always_negative)

    def without_sts(*arguments: Any, **named: Any) -> ServedModel:
        model = open_model(*arguments, **named)
        model.tasks.pop("sts")
        return model

    monkeypatch.setattr(reload_module, "open_model", without_sts)
    assert reload(service) == "failed" and "has no task 'sts'" in caplog.text


def test_a_refused_checkpoint_is_not_tried_again_until_it_changes(
    service: Service, served_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_no_numbers(served_copy)
    reloader = Reloader(service)
    assert reload(service, reloader) == "failed"
    with monkeypatch.context() as patch:
        patch.setattr(reload_module, "open_model", pytest.fail)
        assert reload(service, reloader) == "unchanged"
    change_weights(served_copy, nowhere)  # the same content in new files
    assert reload(service, reloader) == "failed"
    change_weights(served_copy, always_negative)  # on top of what is not a number
    assert reload(service, reloader) == "failed"


def test_a_checkpoint_that_was_seen_half_copied_is_served_when_it_is_complete(
    service: Service, served_copy: Path, tmp_path: Path
) -> None:
    before = served(service)
    change_weights(served_copy, always_negative)
    whole = best(served_copy) / "model.safetensors"
    half = shutil.move(whole, tmp_path / "model.safetensors")
    reloader = Reloader(service)
    assert reload(service, reloader) == "failed" and served(service) is before  # its record is there already
    shutil.move(half, whole)
    assert reload(service, reloader) == "replaced"


def test_a_signal_tries_a_refused_checkpoint_again(service: Service, served_copy: Path) -> None:
    give_no_numbers(served_copy)

    async def scenario() -> None:
        reloader = Reloader(service)
        await reloader.reload()
        reloader.begin()
        await until(lambda: counts(service)["failed"] == 2)

    asyncio.run(scenario())


def test_looks_do_not_overlap(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, most = 0, 0
    original = Reloader._renew

    def noting(self: Reloader, model: ServedModel) -> str:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        result = original(self, model)
        at_once -= 1
        return result

    monkeypatch.setattr(Reloader, "_renew", noting)

    async def scenario() -> None:
        reloader = Reloader(service)
        await asyncio.gather(*[reloader.reload() for _ in range(5)])

    asyncio.run(scenario())
    assert most == 1 and counts(service)["unchanged"] == 5


def test_a_service_that_watches_serves_a_new_checkpoint_by_itself(
    served_copy: Path, make_service: MakeService, open_served: Any
) -> None:
    service = make_service(open_served(served_copy), watch=0.01)
    with TestClient(build_app(service), base_url="http://127.0.0.1") as client:
        before = client.post("/v1/predict", json=BODY).json()["run"]
        change_weights(served_copy, always_negative)
        asyncio.run(until(lambda: served(service).fingerprint != before["fingerprint"]))
        answer = client.post("/v1/predict", json=BODY).json()
        assert answer["results"][0]["sst"]["prediction"] == "negative"
        assert answer["run"]["fingerprint"] == served(service).fingerprint


def test_what_waits_already_is_answered_by_the_version_that_took_it(service: Service, served_copy: Path) -> None:
    async def scenario() -> None:
        app, before = build_app(service), served(service)
        old = asyncio.ensure_future(ask(app, "/v1/predict", BODY))
        await until(lambda: service.engine.texts == 1)
        change_weights(served_copy, always_negative)
        await Reloader(service).reload()
        new = asyncio.ensure_future(ask(app, "/v1/predict", BODY))
        await until(lambda: service.engine.texts == 2)
        service.engine.start()
        answers = [(await each).content for each in (old, new)]
        assert [each["run"]["fingerprint"] for each in answers] == [before.fingerprint, served(service).fingerprint]
        wanted = before.predictor.predict("sst", ["good"])[0].answer
        assert [each["results"][0]["sst"]["prediction"] for each in answers] == [wanted, "negative"]
        service.engine.close()

    asyncio.run(scenario())
