"""`areba verify`: what it accepts and what it reports."""
