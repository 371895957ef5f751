"""The files of deploy/: valid manifests, and a Slurm script that trains, stops and requeues, with stand-ins."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import typer
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
SCRIPT = DEPLOY / "slurm" / "train.sbatch"
BIN = Path(sys.executable).parent
STAND_INS = {
    "srun": 'echo "srun $*" >> "$CALLS"\nwhile [[ $1 == --* ]]; do shift; done\necho $$ > "$CALLS.pid"\nexec "$@"',
    "scontrol": 'echo "scontrol $*" >> "$CALLS"\nif [[ $1 == show ]]; then echo 127.0.0.1; echo other; fi',
    "scancel": 'echo "scancel $*" >> "$CALLS"\nkill -INT "$(cat "$CALLS.pid")"',
    "torchrun": f'exec {sys.executable} -m torch.distributed.run "$@"',
}
FILES = [path for path in DEPLOY.rglob("*") if path.is_file()]


def nested(verb: Any) -> list[Any]:
    """Return the commands below a verb, at any depth."""
    below = list(getattr(verb, "commands", {}).values())
    return below + [command for each in below for command in nested(each)]


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text("utf-8")))


def start(recipe: dict[str, Any], folder: Path) -> subprocess.Popen[bytes]:
    """Start the script as Slurm does, on one node with two processes."""
    for name, body in STAND_INS.items():
        path = folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)
    (folder / "my.toml").write_text(tomli_w.dumps(recipe), "utf-8")
    slurm = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "node[1-2]"}
    own = {"PROCESSES_PER_NODE": "2", "CALLS": str(folder / "calls"), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    command = ["bash", str(SCRIPT), str(folder / "my.toml"), str(folder / "run")]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, env=os.environ | slurm | own, stdout=log, stderr=log)


def test_the_slurm_script_trains_with_two_processes(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    with start(tiny_recipe, tmp_path) as job:
        assert job.wait(timeout=240) == 0, (tmp_path / "log").read_text()
    calls = (tmp_path / "calls").read_text()
    assert "scontrol show hostnames node[1-2]" in calls
    assert "--rdzv-endpoint 127.0.0.1:" in calls and "--auto-resume" in calls
    assert (tmp_path / "run" / "report.json").is_file()


def test_a_preempted_job_writes_a_checkpoint_and_is_requeued(tiny_recipe: dict[str, Any], tmp_path: Path) -> None:
    tiny_recipe["training"] |= {"epochs": 10_000, "log_every": 1}
    metrics = tmp_path / "run" / "metrics.jsonl"
    with start(tiny_recipe, tmp_path) as job:
        while job.poll() is None and '"train"' not in (metrics.read_text() if metrics.exists() else ""):
            time.sleep(0.1)  # until the first step
        job.send_signal(signal.SIGTERM)
        assert job.wait(timeout=120) == 0, (tmp_path / "log").read_text()
    calls = (tmp_path / "calls").read_text()
    assert f"scontrol requeue {os.getpid()}" in calls
    assert (tmp_path / "run" / "checkpoints" / "last").exists()
    assert not (tmp_path / "run" / "report.json").exists()


@pytest.mark.parametrize("command", [["bash", "-n"], [str(BIN / "shellcheck")]], ids=["bash", "shellcheck"])
def test_the_slurm_script_is_correct_bash(command: list[str]) -> None:
    result = subprocess.run([*command, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_dockerfile_passes_hadolint() -> None:
    result = subprocess.run(
        [str(BIN / "hadolint"), str(DEPLOY / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_kubernetes_accepts_the_manifests() -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    [job] = documents("job.yaml")
    claim, training = documents("pytorchjob.yaml")
    template = training["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"}, "spec": template["spec"]}
    for document in (job, claim, pod):
        validate(document, "1.31", strict=True)


def test_the_pytorch_job_has_what_the_operator_needs() -> None:
    claim, training = documents("pytorchjob.yaml")
    assert (training["apiVersion"], training["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    spec = training["spec"]
    assert set(spec) == {"elasticPolicy", "nprocPerNode", "pytorchReplicaSpecs"}
    assert set(spec["elasticPolicy"]) == {"rdzvBackend", "minReplicas", "maxReplicas", "maxRestarts"}
    worker = spec["pytorchReplicaSpecs"]["Worker"]
    assert (worker["replicas"], worker["restartPolicy"]) == (spec["elasticPolicy"]["maxReplicas"], "OnFailure")
    [container] = worker["template"]["spec"]["containers"]
    assert container["name"] == "pytorch"
    assert {"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "1"} in container["env"]  # see test_machines
    volumes = worker["template"]["spec"]["volumes"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in volumes}
    assert volumes[0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_option_of_palbert_exists(path: Path) -> None:
    from palbert.cli import app

    verbs: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    commands = [command for verb in verbs.values() for command in (verb, *nested(verb))]
    known = {option for command in commands for item in command.params for option in item.opts}
    text = path.read_text("utf-8").replace("\\\n", " ")
    for verb, rest in re.findall(r"\bpalbert,? (\w+),? ([^\n]*--[^\n]*)", text):
        assert verb in verbs
        assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= known
