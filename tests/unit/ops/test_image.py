"""The Dockerfile, without an engine (`make test-ops` builds and runs it)."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]

STAGES = (ROOT / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")[1:]
DEPENDENCIES, BUILD, TORCH, RUNTIME, SLIM, DEFAULT = STAGES


def variables(stage: str) -> dict[str, str]:
    """Return the variables and defaults of arguments that a stage sets."""
    return dict(re.findall(r"(?:^ARG|ENV|\s)\s*([A-Z_]+)=(\S*)", stage, re.MULTILINE))


def test_compiled_code_is_looked_for_where_it_was_made() -> None:
    """With another path or processor, each start would compile for a minute, and discard the result."""
    build, final = variables(DEPENDENCIES), variables(RUNTIME)
    for name in ("CPU_NAME", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "AREBA_CACHE_DIR"):
        assert build[name] == final[name]
    assert final["CPU_NAME"] == "x86-64-v3"
    assert final["NUMBA_CPU_FEATURES"] == "", "without this, Numba takes the features of the machine of the build"


def test_the_image_is_not_root_and_checks_its_health() -> None:
    """Operators refuse images that run as root; a worker that hangs must be found."""
    assert re.search(r"^USER 10001:10001$", RUNTIME, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*\n.*/alive", RUNTIME, re.MULTILINE)


def test_only_the_default_image_has_torch() -> None:
    """Torch is 4 GB that only networks of a user's own need."""
    assert [stage for stage in STAGES if "torch==" in stage] == [TORCH]
    assert [stage.splitlines() for stage in (SLIM, DEFAULT)] == [
        ["runtime AS slim", "COPY --from=build /opt/areba /opt/areba"],
        ["runtime", "COPY --from=build-torch /opt/areba /opt/areba"],
    ]
    assert BUILD.startswith("dependencies AS build\n")


def test_the_context_has_what_the_build_copies() -> None:
    """A file that is ignored is missing in the build; one that is not ignored may be a secret."""
    ignored, *allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored == "*"
    copied = {
        name
        for line in re.findall("^COPY ([^-].*) [^ ]+$", DEPENDENCIES + BUILD, re.MULTILINE)
        for name in line.split()
    }
    assert copied == {line.removeprefix("!") for line in allowed if line.startswith("!")}
    assert all((ROOT / name).exists() for name in copied)
