"""The commands of `areba`: how they start and how they report errors."""
