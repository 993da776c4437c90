"""What starts brokers and workers, and the views of a running application."""
