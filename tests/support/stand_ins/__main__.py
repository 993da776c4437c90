"""Make the stand-ins: needs root, podman, and debootstrap; takes some minutes and 1.5 GB."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from ops.local_kafka.jars import kafka_jars

ROOT = Path(__file__).parents[3]

FILES = Path(__file__).parent

SOURCES = Path("/etc/apt/sources.list.d/debian.sources")

HOST_CERTIFICATES = "/etc/ssl/certs:/etc/ssl/certs:ro"

PODMAN, TAR = "podman", "tar"

PACKAGES = "python3,python3-venv,ca-certificates"


def main() -> None:
    """Make each image that is missing."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    [python] = re.findall("^ARG PYTHON_IMAGE=(.+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    if not _is_there(python):
        _import_debian(python)
    for service in ("kafka", "prometheus"):
        image = services[service]["image"]
        if not _is_there(image):
            _build(service, image, python)
    application = services["worker-1"]["image"]
    if not _is_there(application):
        _run(PODMAN, "build", "--format", "docker", *_host_access(), "--tag", application, str(ROOT))


def _is_there(image: str) -> bool:
    return subprocess.run([PODMAN, "image", "exists", image], check=False).returncode == 0


def _import_debian(image: str) -> None:
    """Import a Debian with Python, of the release and from the mirror that this machine's apt is configured with."""
    text = SOURCES.read_text(encoding="utf-8")
    mirror, suite = (re.findall(rf"^{field}: (\S+)", text, re.MULTILINE)[0] for field in ("URIs", "Suites"))
    with tempfile.TemporaryDirectory() as folder:
        root, archive = Path(folder) / "root", Path(folder) / "root.tar"
        _run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, str(root), mirror)
        _run(TAR, "-C", str(root), "-cf", str(archive), ".")
        _run(PODMAN, "import", str(archive), image)


def _build(service: str, image: str, base: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if service == "kafka":
            shutil.copytree(kafka_jars(), Path(folder) / "libs")
        shutil.copytree(FILES / service, folder, dirs_exist_ok=True)
        arguments = ["--build-arg", f"BASE={base}", "--tag", image]
        _run(PODMAN, "build", "--format", "docker", "--network", "host", *arguments, folder)


def _host_access() -> list[str]:
    """Return the options with which pip, in a build, reaches and trusts what it does on this machine."""
    options = ["--network", "host", "--volume", HOST_CERTIFICATES]
    configuration = Path("/etc/pip.conf")
    return [*options, "--volume", f"{configuration}:{configuration}:ro"] if configuration.exists() else options


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
