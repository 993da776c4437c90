"""The manifests: rendered by kustomize, valid, and with the figures that the application needs."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ops import kustomize
from stream_app import __version__
from stream_app.backends.topics import DEFAULT_MESSAGE_BYTES
from stream_app.config import Config, load
from stream_app.config.memory_bound import bound_of
from stream_app.errors import ConfigurationError

FOLDER = Path(kustomize.__file__).parent / "kubernetes"

KUBERNETES = ("1.30", "1.34")
"""The oldest and the newest release of Kubernetes that the manifests are checked against."""

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def objects() -> Sequence[dict[str, Any]]:
    """Render the folder; skip on a developer's machine that has neither kustomize nor Go."""
    try:
        return kustomize.render(FOLDER)
    except ConfigurationError as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def config() -> Config:
    """Return the configuration that the workers get, with nothing of this machine's environment."""
    return load(FOLDER / "areba.yaml", {})


def the(objects: Sequence[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the only object of a kind."""
    [found] = [one for one in objects if one["kind"] == kind]
    return found


def template(objects: Sequence[dict[str, Any]], kind: str = "StatefulSet") -> dict[str, Any]:
    """Return the template of the pods of the workers, or of the job."""
    found: dict[str, Any] = the(objects, kind)["spec"]["template"]
    return found


def worker(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the worker's container."""
    [container] = template(objects)["spec"]["containers"]
    assert isinstance(container, dict)
    return container


@pytest.mark.slow(5)
@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_knows_every_field(objects: Sequence[dict[str, Any]], version: str) -> None:
    """The API server would refuse the object, or ignore a misspelt probe without a word."""
    assert sorted(one["kind"] for one in objects) == [
        "ConfigMap",
        "Job",
        "PodDisruptionBudget",
        "Service",
        "StatefulSet",
    ]
    for one in objects:
        kubernetes_validate.validate(one, version, strict=True)


def test_validation_finds_a_misspelt_probe(objects: Sequence[dict[str, Any]]) -> None:
    """If it did not, the test above would prove nothing."""
    wrong = yaml.safe_load(yaml.safe_dump(the(objects, "StatefulSet")))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES[-1], strict=True)


def test_memory_is_the_bound_of_a_worker_that_has_all_partitions(
    objects: Sequence[dict[str, Any]], config: Config
) -> None:
    """A worker that restores everything after the others have died would be killed for its memory."""
    arguments = template(objects, "Job")["spec"]["containers"][0]["args"]
    partitions = int(arguments[arguments.index("--partitions") + 1])
    bound = bound_of(config, config.task_settings(), DEFAULT_MESSAGE_BYTES).total(partitions)
    resources = worker(objects)["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    limit = int(resources["limits"]["memory"].removesuffix("Mi")) * MEBIBYTE
    [temporary] = [one["emptyDir"] for one in template(objects)["spec"]["volumes"] if "emptyDir" in one]
    needed = bound + int(temporary["sizeLimit"].removesuffix("Mi")) * MEBIBYTE
    assert needed <= limit <= 1.25 * needed


def test_a_pod_has_the_name_of_its_ordinal_in_the_group(objects: Sequence[dict[str, Any]]) -> None:
    """Two workers with one name fence each other; a new name after each restart leaves transactions hanging."""
    variables = {one["name"]: one["valueFrom"] for one in worker(objects)["env"]}
    assert variables["AREBA__APPLICATION__INSTANCE"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_the_probes_ask_the_pages_of_the_worker(objects: Sequence[dict[str, Any]]) -> None:
    """A liveness probe on /ready would kill every worker while the brokers are down."""
    paths = {
        kind: (probe["httpGet"]["path"], probe["httpGet"]["port"])
        for kind, probe in worker(objects).items()
        if kind.endswith("Probe")
    }
    assert paths == {
        "startupProbe": ("/alive", "http"),
        "livenessProbe": ("/alive", "http"),
        "readinessProbe": ("/ready", "http"),
    }
    [port] = worker(objects)["ports"]
    dockerfile = (FOLDER.parents[1] / "Dockerfile").read_text(encoding="utf-8")
    assert f"AREBA__WORKER__HTTP_PORT={port['containerPort']}" in dockerfile


def test_secrets_are_named_and_not_contained(objects: Sequence[dict[str, Any]]) -> None:
    """A password in a manifest ends in a repository."""
    for kind in ("StatefulSet", "Job"):
        [container] = template(objects, kind)["spec"]["containers"]
        sources = {one["name"]: one["valueFrom"] for one in container["env"] if "SASL" in one["name"]}
        assert {source["secretKeyRef"]["name"] for source in sources.values()} == {"areba-kafka"}
        assert len(sources) == 2
    assert "Secret" not in {one["kind"] for one in objects}


def test_pods_are_not_root_and_write_nothing(objects: Sequence[dict[str, Any]]) -> None:
    """Clusters with the restricted policy would refuse the pods."""
    for kind in ("StatefulSet", "Job"):
        pod = template(objects, kind)["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["image"] == f"areba:{__version__}"


def test_budget_and_service_select_the_workers_only(objects: Sequence[dict[str, Any]]) -> None:
    """A budget over the wrong pods protects nothing."""
    labels = template(objects)["metadata"]["labels"]
    selectors = (
        the(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        the(objects, "StatefulSet")["spec"]["selector"]["matchLabels"],
        the(objects, "Service")["spec"]["selector"],
    )
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert not selector.items() <= template(objects, "Job")["metadata"]["labels"].items()
    assert the(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
