"""Tests that need a container engine: `make test-ops`."""
