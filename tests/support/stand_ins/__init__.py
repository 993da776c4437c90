"""Images that stand in for published ones, on a machine with podman that cannot reach a registry of images.

`python -m tests.support.stand_ins` makes those that are missing: Python and Prometheus from this machine's Debian
packages, Kafka from the jars that Maven fetches, with the class that converts variables in Apache's own image. They
have the names of the real images, which podman then finds. On a machine with a registry, use the real ones.
"""
