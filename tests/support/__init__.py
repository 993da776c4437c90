"""Code that several test packages share: fixtures, references to compare with, and helpers that wait."""
