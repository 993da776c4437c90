"""What several test packages share: fixtures in code, references to compare with, and helpers that wait."""
