"""The files that deploy a service: they fit the options, routes and metrics that it has, and each other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
import yaml
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.routing import Route
from tests.served import serving, train_tiny_demo

from palbert.cli import app
from palbert.serving import server
from palbert.serving.app import build_app
from palbert.serving.engine import Engine
from palbert.serving.gateway import GUARDED
from palbert.serving.keys import add_key, read_keys
from palbert.serving.metrics import Metrics
from palbert.serving.runs import Runs
from palbert.serving.service import Service
from palbert.serving.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVING = DEPLOY / "serving"
DOCKERFILE = (SERVING / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((SERVING / "compose.yaml").read_text("utf-8"))
DASHBOARD: dict[str, Any] = json.loads((SERVING / "grafana" / "palbert.json").read_text("utf-8"))
MANIFESTS = ("serve-keys.yaml", "serve.yaml", "serve-audited.yaml")
CLOSING = 10
"""Seconds that the audit log may take to write what waits, after all requests are answered."""
PORT = 8000


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text("utf-8")))


def pods() -> list[dict[str, Any]]:
    found = [document for name in MANIFESTS for document in documents(name) if "template" in document.get("spec", {})]
    assert [each["kind"] for each in found] == ["Deployment", "StatefulSet"]
    return [each["spec"]["template"]["spec"] for each in found]


PODS = pods()
ARGUMENTS = [COMPOSE["services"]["palbert"]["command"], *(pod["containers"][0]["args"] for pod in PODS)]
KINDS = ["compose", "Deployment", "StatefulSet"]


def settings_of(arguments: list[str]) -> Settings:
    """Return what `palbert serve` makes of its arguments."""
    found: list[Settings] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "run_server", found.append)
        typer.main.get_command(app).main(["serve", *arguments], standalone_mode=False)
    return found[0]


def routes() -> dict[str, Route]:
    settings = Settings(runs=(("mine", Path("mine")),))
    service = Service(settings, Runs([]), Engine(queue=1, wait=0.0), Metrics())
    application = build_app(service).app
    assert isinstance(application, Starlette)
    return {route.path: route for route in application.routes if isinstance(route, Route)}


def expressions() -> dict[str, str]:
    """Return every PromQL expression of the rules and of the dashboard, by where it stands."""
    rules = yaml.safe_load((SERVING / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
    panels = {f"{panel['title']} {t['refId']}": t["expr"] for panel in DASHBOARD["panels"] for t in panel["targets"]}
    return {rule["alert"]: rule["expr"] for rule in rules} | panels


@dataclass(frozen=True)
class Running:
    """A service that runs with the arguments of the Deployment, on a tiny run."""

    address: str
    key: str
    metrics: dict[str, list[dict[str, str]]]
    """The labels of every sample of /metrics, by its name."""


@pytest.fixture(scope="module")
def running(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("deployed")
    train_tiny_demo(tiny_encoder, folder / "runs" / "mine")
    key = add_key(folder / "keys.json", "prometheus")
    places = {"/runs/": f"{folder}/runs/", "/keys/": f"{folder}/", "0.0.0.0": "127.0.0.1"}
    arguments = list(PODS[0]["containers"][0]["args"])
    for before, after in places.items():
        arguments = [argument.replace(before, after) for argument in arguments]
    with serving(arguments, folder) as address:
        ask = {"headers": {"Authorization": f"Bearer {key}"}, "timeout": 60}
        body = {"tasks": "all", "texts": ["A quiet little triumph."]}
        assert httpx.post(f"{address}/v1/predict", json=body, **ask).status_code == 200  # type: ignore[arg-type]
        page = httpx.get(f"{address}/metrics", **ask).text  # type: ignore[arg-type]
        samples: dict[str, list[dict[str, str]]] = {"up": [{}]}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                samples.setdefault(sample.name, []).append(sample.labels)
        yield Running(address, key, samples)


def test_the_dockerfile_of_the_service_passes_hadolint() -> None:
    command = [str(Path(sys.executable).parent / "hadolint"), str(SERVING / "Dockerfile")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_image_copies_what_exists_and_does_not_run_as_root() -> None:
    copied = re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE)
    assert [name for line in copied for name in line.split() if not (DEPLOY.parent / name).exists()] == []
    user = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)[-1]
    assert all(int(number) > 0 for number in user)
    assert int(user[0]) == PODS[0]["securityContext"]["runAsUser"]
    assert re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE) == ['["palbert", "serve"]']
    assert re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE) == [str(PORT)]


def test_the_health_check_of_the_image_succeeds_only_while_the_service_answers(running: Running) -> None:
    [check] = re.findall(r"HEALTHCHECK .*\\\n\s+CMD (\[.*\])", DOCKERFILE)
    _, *rest = json.loads(check)
    assert f"http://127.0.0.1:{PORT}/" in rest[-1]
    for address, code in ((running.address, 0), ("http://127.0.0.1:1", 1)):
        command = [sys.executable, *rest[:-1], rest[-1].replace(f"http://127.0.0.1:{PORT}", address)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == code


@pytest.mark.parametrize("name", MANIFESTS)
def test_kubernetes_accepts_the_manifests_of_the_service(name: str) -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    for document in documents(name):
        validate(document, "1.31", strict=True)


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=KINDS)
def test_the_arguments_are_options_of_palbert_serve(arguments: list[str]) -> None:
    settings = settings_of(arguments)
    assert (settings.host, settings.port) == ("0.0.0.0", PORT)
    assert settings.keys is not None


@pytest.mark.parametrize("arguments", [["mine", "--nonsense"], ["mine", "--port=none"]])
def test_an_argument_that_does_not_exist_is_noticed(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        app(["serve", *arguments])
    assert stopped.value.code == 2


@pytest.mark.parametrize("pod", PODS, ids=KINDS[1:])
def test_a_pod_reads_and_writes_only_what_is_mounted(pod: dict[str, Any]) -> None:
    [container] = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
    settings = settings_of(container["args"])
    assert settings.keys is not None
    assert [mounts.get(f"/{path.parts[1]}") for _, path in settings.runs] == [True]
    assert mounts[str(settings.keys.parent)] is True and mounts["/tmp"] is False
    written = settings.audit_log
    assert (settings.audit == "off") == (written is None)
    assert written is None or mounts[str(written.parent)] is False
    threads = {entry["name"]: entry["value"] for entry in container["env"]}["OMP_NUM_THREADS"]
    assert threads == container["resources"]["limits"]["cpu"]


@pytest.mark.parametrize("pod", PODS, ids=KINDS[1:])
def test_a_pod_has_time_to_answer_what_has_begun(pod: dict[str, Any]) -> None:
    [container] = pod["containers"]
    needed = container["lifecycle"]["preStop"]["sleep"]["seconds"] + settings_of(container["args"]).drain + CLOSING
    assert pod["terminationGracePeriodSeconds"] > needed


@pytest.mark.parametrize("pod", PODS, ids=KINDS[1:])
def test_probes_ask_routes_that_need_no_key(pod: dict[str, Any], running: Running) -> None:
    [container] = pod["containers"]
    probes = {name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/healthz",
    }  # fmt: skip
    [port] = container["ports"]
    assert port["containerPort"] == PORT and {probe["port"] for probe in probes.values()} == {port["name"]}
    for probe in probes.values():
        assert probe["path"] in routes()
        assert httpx.get(running.address + probe["path"], timeout=60).status_code == 200


def test_what_stands_around_the_deployment_is_about_it() -> None:
    found = {document["kind"]: document for document in documents("serve.yaml")}
    deployment, pod = found["Deployment"], found["Deployment"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector == labels
    target = found["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
    assert "replicas" not in deployment["spec"]  # it would undo what the autoscaler chose, whenever it is applied
    [container] = pod["spec"]["containers"]
    assert found["Service"]["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    assert found["NetworkPolicy"]["spec"]["ingress"][0]["ports"][0]["port"] == PORT
    assert "cpu" in container["resources"]["requests"]  # what the autoscaler's share is a share of


def test_the_secret_is_a_file_of_keys_that_lets_nobody_in(tmp_path: Path) -> None:
    [secret] = documents("serve-keys.yaml")
    [(name, content)] = secret["stringData"].items()
    path = tmp_path / name
    path.write_text(content, "utf-8")
    assert read_keys(path) == []
    for pod in PODS:
        mounted = {volume["name"]: volume for volume in pod["volumes"]}["keys"]["secret"]["secretName"]
        assert mounted == secret["metadata"]["name"]
        assert settings_of(pod["containers"][0]["args"]).keys == Path("/keys", name)


def test_compose_mounts_files_that_exist_and_secrets_that_are_named() -> None:
    named = {"volume": COMPOSE["volumes"], "bind": None}
    for name, service in COMPOSE["services"].items():
        for volume in service["volumes"]:
            if volume["type"] == "volume":
                assert volume["source"] in named["volume"]
            elif not volume["source"].startswith("${"):
                assert (SERVING / volume["source"]).is_file() and volume["read_only"] is True, name
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    image = COMPOSE["services"]["palbert"]["build"]
    assert (SERVING / image["context"] / image["dockerfile"]).resolve() == SERVING / "Dockerfile"


def test_compose_gives_the_service_what_its_arguments_name() -> None:
    service = COMPOSE["services"]["palbert"]
    settings = settings_of(service["command"])
    targets = {volume["target"]: volume.get("read_only", False) for volume in service["volumes"]}
    assert settings.keys is not None and settings.audit_log is not None
    assert targets == {str(settings.runs[0][1]): True, str(settings.audit_log.parent): False}
    assert service["secrets"] == [settings.keys.name] and settings.keys.parent == Path("/run/secrets")
    assert service["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert service["read_only"] is True and service["tmpfs"] == ["/tmp"] and service["cap_drop"] == ["ALL"]
    assert service["environment"]["OMP_NUM_THREADS"] == str(service["cpus"])
    assert int(service["stop_grace_period"].removesuffix("s")) > settings.drain + CLOSING


@pytest.mark.parametrize("name", ["serving/prometheus.yml", "kubernetes/prometheus.yml"])
def test_prometheus_asks_for_metrics_with_a_key(name: str, running: Running) -> None:
    [job] = yaml.safe_load((DEPLOY / name).read_text("utf-8"))["scrape_configs"]
    assert job["metrics_path"] in routes() and job["metrics_path"].startswith(GUARDED)
    url = running.address + job["metrics_path"]
    headers = {"Authorization": f"{job['authorization']['type']} {running.key}"}
    assert httpx.get(url, timeout=60).status_code == 401
    assert httpx.get(url, headers=headers, timeout=60).status_code == 200
    assert f'job="{job["job_name"]}"' in expressions()["PalbertDown"]


def test_the_prometheus_of_compose_finds_the_service_its_key_and_its_rules() -> None:
    settings = yaml.safe_load((SERVING / "prometheus.yml").read_text("utf-8"))
    [job] = settings["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"palbert:{PORT}"]}] and "palbert" in COMPOSE["services"]
    prometheus = COMPOSE["services"]["prometheus"]
    assert [job["authorization"]["credentials_file"]] == [f"/run/secrets/{name}" for name in prometheus["secrets"]]
    mounted = {Path(volume["target"]) for volume in prometheus["volumes"]}
    assert {Path("/etc/prometheus", name) for name in settings["rule_files"]} <= mounted


def test_the_prometheus_of_kubernetes_finds_the_pods() -> None:
    [job] = yaml.safe_load((DEPLOY / "kubernetes" / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    keep = next(rule for rule in job["relabel_configs"] if rule.get("action") == "keep")
    [port] = PODS[0]["containers"][0]["ports"]
    assert keep["regex"] == f"palbert;{port['name']}"


@pytest.mark.parametrize("where", expressions())
def test_an_expression_names_metrics_and_labels_that_exist(where: str, running: Running) -> None:
    expression = expressions()[where]
    named = re.findall(r"\b(palbert_\w+|up)\b(?:\{([^}]*)\})?", expression)
    assert named
    for name, matchers in named:
        assert name in running.metrics, name
        known = {label for labels in running.metrics[name] for label in labels} | {"job", "instance"}
        assert set(re.findall(r"(\w+)\s*[=!]~?", matchers)) <= known
        for label, value in re.findall(r'(\w+)="(\w+)"', matchers):
            if label != "job":  # a series that is not there from the start has no increase at its first event
                assert value in {labels[label] for labels in running.metrics[name]}
    every = {label for name, _ in named for labels in running.metrics[name] for label in labels} | {"job", "instance"}
    for labels in re.findall(r"by \(([^)]*)\)", expression):
        assert set(labels.split(", ")) <= every


def test_every_metric_is_in_the_dashboard(running: Running) -> None:
    shown = " ".join(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])
    families = {re.sub(r"_(total|bucket|sum|count|created)$", "", name) for name in running.metrics}
    assert {family for family in families if family not in shown} == set()


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24


def test_the_dashboard_asks_the_source_and_the_variables_that_it_has() -> None:
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"])))
    assert {name for name in used if not name.startswith("__")} <= variables
    [source] = yaml.safe_load((SERVING / "grafana" / "prometheus.yml").read_text("utf-8"))["datasources"]
    first = DASHBOARD["templating"]["list"][0]
    assert (first["name"], first["current"]["value"]) == ("datasource", source["uid"])
    assert source["url"] == "http://prometheus:9090" and "prometheus" in COMPOSE["services"]
    [provider] = yaml.safe_load((SERVING / "grafana" / "provisioning.yml").read_text("utf-8"))["providers"]
    targets = [volume["target"] for volume in COMPOSE["services"]["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/palbert.json" in targets
