"""A file of payments, of which some are fraud, with labels that come hours or days later."""

import csv
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

NAMES = ("transaction", "date", "amount", "account_age_days", "payments_of_the_day", "country", "is_fraud", "known_at")

FRAUD_SHARE = 0.02

MEAN_GAP_S = 60.0
"""Seconds between two payments: 10,000 of them span a week, which topics accept by default."""

MEDIAN_DELAY_S = 6 * 3_600.0


def write_payments(path: Path, count: int, seed: int = 1) -> None:
    """Write a CSV file; equal arguments give equal bytes."""
    numbers = random.Random(seed)  # noqa: S311  (an example, no secret)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        for number in range(count):
            at += timedelta(seconds=numbers.expovariate(1 / MEAN_GAP_S))
            is_fraud = numbers.random() < FRAUD_SHARE
            known_at = at + timedelta(seconds=MEDIAN_DELAY_S * numbers.lognormvariate(0, 0.7))
            amount = numbers.lognormvariate(5.5 if is_fraud else 3.5, 1.0)
            age = numbers.randrange(1, 90 if is_fraud else 2_000)
            often = numbers.randrange(1, 12 if is_fraud else 5)
            country = numbers.choice(("DE", "FR", "IT", "NL"))
            label = "yes" if is_fraud else "no"
            times = (at.isoformat(timespec="seconds"), known_at.isoformat(timespec="seconds"))
            writer.writerow((f"t{number}", times[0], f"{amount:.2f}", age, often, country, label, times[1]))
