"""What the newest records of the inputs and the outputs show, without a worker."""
