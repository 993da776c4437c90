"""The composition of docker-compose.yml: its files, and a trial of all its services.

`areba.yaml` and `replay.sh` are mounted into the containers. `python -m ops.composition` brings the composition up with
Docker's or Podman's compose, whichever answers, watches it, kills a worker, verifies the topics, and takes it down.

May import `stream_app`. Public: `trial.run`, `compose.find`.
"""
