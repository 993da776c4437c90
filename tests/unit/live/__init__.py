"""What a task that takes new records does, apart from its models."""
