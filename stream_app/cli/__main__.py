"""Run the `areba` command: `python -m stream_app.cli`."""

from stream_app.cli.main import main

if __name__ == "__main__":
    main()
