"""Transactions whose markers a broker has lost."""
