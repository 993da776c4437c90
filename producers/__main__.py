"""Run the `areba-replay` command: the script of an installation, or `python -m stream_app.producers`."""

from stream_app.worker_extra import worker_extra


def main() -> None:
    """Run the `areba-replay` command on the arguments of this process."""
    with worker_extra("areba-replay"):
        from stream_app.producers.cli import main as run  # noqa: PLC0415  (a package may be missing)
    run(prog_name="areba-replay")


if __name__ == "__main__":
    main()
