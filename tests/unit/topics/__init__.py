"""Topics that administrators change."""
