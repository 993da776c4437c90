"""The start of brokers and workers, and the views of a running application."""
