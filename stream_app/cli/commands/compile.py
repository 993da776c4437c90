"""`areba compile`."""

import os
from pathlib import Path

import click

from stream_app.config import METHODS, Config, load


@click.command("compile")
@click.option(
    "-c",
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="Compile for the learners of this configuration file; by default, for every method that is part of areba.",
)
def compile_code(path: Path | None) -> None:
    """Compile the code that workers need ahead of time.

    The compiled code goes into the cache (AREBA_CACHE_DIR). It is for this machine's processor, or for the processor
    that NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name, and only for the same version of areba at the same path. Code that
    the cache already has is not compiled again. The exit status is 2 if a learner of the file cannot be compiled.

    \b
    Examples:
      areba compile
      areba compile -c my.yaml
    """  # noqa: D301  (\b: click keeps the lines of the paragraph)
    from stream_app.cli.warm_up import warm_up  # noqa: PLC0415  (see run)

    for config in map(every_method, ("first", "correct")) if path is None else (load(path, os.environ),):
        warm_up(config.task_settings())


def every_method(corrections: str = "first") -> Config:
    """Return a configuration with a learner of each method, and with one that is wide and scaled."""
    plain = {method: {"method": method} for method in METHODS}
    wide = {"wide": {"method": "areba", "hidden": [16, 16], "scaler": "standard"}}
    champion = next(iter(plain))
    streams = {
        "any": {"features": 2, "champion": champion},
        "with-columns": {"columns": {"one": "number"}, "champion": champion},
    }
    sections = {"learners": plain | wide, "streams": streams, "join": {"corrections": corrections}}
    return Config.model_validate(sections)
