"""Run the `areba` command: the script of an installation, or `python -m stream_app.cli`."""

from stream_app.worker_extra import worker_extra


def main() -> None:
    """Run the `areba` command on the arguments of this process."""
    with worker_extra("areba"):
        from stream_app.cli.main import main as run  # noqa: PLC0415  (a package may be missing)
    run()


if __name__ == "__main__":
    main()
