"""docker/kubernetes.yaml against Kubernetes' own schema, and against what a runner needs.

No cluster is asked: whether a scheduler places the pods and a volume is shared, only a cluster can tell.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((Path(__file__).parent / "kubernetes-1.31.json").read_text())
NAMES = {"contilab-store": "PersistentVolumeClaim", "contilab-run": "Job", "contilab-report": "Job"}


def resources() -> dict[str, dict[str, Any]]:
    """Return the resources of the file by name."""
    return {one["metadata"]["name"]: one for one in yaml.safe_load_all((ROOT / "docker" / "kubernetes.yaml").read_text())}


def faults(resource: dict[str, Any]) -> list[str]:
    """Return what the schema says against a resource."""
    schema = {**SCHEMA, "$ref": f"#/$defs/{resource['kind']}"}
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(resource)]


def pod(name: str) -> dict[str, Any]:
    """Return the specification of the pods of a Job."""
    specification: dict[str, Any] = resources()[name]["spec"]["template"]["spec"]
    return specification


def containers(name: str) -> list[dict[str, Any]]:
    """Return all containers of the pods of a Job."""
    return [*pod(name).get("initContainers", []), *pod(name)["containers"]]


class TestSchema:
    """Each resource of the file has the form that the API accepts."""

    def test_kinds(self) -> None:
        """The file holds a claim on a volume and two Jobs."""
        assert {name: one["kind"] for name, one in resources().items()} == NAMES

    @pytest.mark.parametrize("name", NAMES)
    def test_valid(self, name: str) -> None:
        """The schema that Kubernetes publishes finds no fault."""
        assert faults(resources()[name]) == []

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("spec", "completions"), "4"),
            (("spec", "template", "spec", "restartpolicy"), "Never"),
            (("spec", "template", "spec", "securityContext", "runAsUser"), "root"),
            (("spec", "podFailurePolicy"), {"rules": [{"onExitCodes": {"operator": "In", "values": [2]}}]}),
        ],
        ids=["type", "unknown name", "type below", "missing name"],
    )
    def test_refuses(self, path: tuple[str, ...], value: object) -> None:
        """The same check does find a wrong type, a misspelt name and a missing one."""
        job = resources()["contilab-run"]
        place = job
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value

        assert faults(job) != []


class TestRunners:
    """The Indexed Job of the runners."""

    def test_each_index_is_a_runner(self) -> None:
        """All indices run at once: a runner ends only when nothing is left, so none may wait for another."""
        spec = resources()["contilab-run"]["spec"]

        assert spec["completionMode"] == "Indexed"
        assert spec["completions"] == spec["parallelism"]

    def test_a_pod_has_time_to_stop(self) -> None:
        """A pod is not killed before the 8 s in which a runner stops are over, nor restarted in place."""
        assert pod("contilab-run")["terminationGracePeriodSeconds"] == 60
        assert pod("contilab-run")["restartPolicy"] == "Never"  # the only one with which a podFailurePolicy is accepted

    def test_what_a_repetition_cannot_change_is_not_repeated(self) -> None:
        """Exit codes 2 and 3 fail the index, an eviction is not counted, and any other death starts another pod."""
        spec = resources()["contilab-run"]["spec"]
        ignored, failed = spec["podFailurePolicy"]["rules"]

        assert (ignored["action"], ignored["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
        assert (failed["action"], failed["onExitCodes"]["values"]) == ("FailIndex", [2, 3])
        assert spec["backoffLimitPerIndex"] >= 3  # so that one bad group does not use up a runner before it is put aside

    def test_one_volume(self) -> None:
        """All containers of both Jobs see the same claim at the image's place of the store."""
        mounted = {
            mount["mountPath"]
            for name in ("contilab-run", "contilab-report")
            for one in containers(name)
            for mount in one["volumeMounts"]
        }
        claims = {pod(name)["volumes"][0]["persistentVolumeClaim"]["claimName"] for name in ("contilab-run", "contilab-report")}

        assert (mounted, claims) == ({"/store"}, {"contilab-store"})
        assert resources()["contilab-store"]["spec"]["accessModes"] == ["ReadWriteMany"]

    @pytest.mark.parametrize("name", ["contilab-run", "contilab-report"])
    def test_no_privileges(self, name: str) -> None:
        """Pods run as an ordinary user whose group may write to the volume, without any capability and with limits."""
        security = pod(name)["securityContext"]

        assert security["runAsNonRoot"]
        assert security["runAsUser"] == security["fsGroup"] == 1000
        for container in containers(name):
            assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
            assert {"requests", "limits"} <= set(container["resources"])
