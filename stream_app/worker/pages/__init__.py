"""What a worker answers over HTTP: `health` for `/alive` and `/ready`, `metrics` for `/metrics`; `http` serves them."""
