"""What operators get beside the application, on the real tools: `make test-ops`."""
