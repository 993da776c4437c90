"""Test the face for subscribers."""
