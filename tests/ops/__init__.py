"""What operators get in addition to the application, on the real tools: `make test-ops`."""
