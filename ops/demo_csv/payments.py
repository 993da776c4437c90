"""A file of payments, of which some are fraud, with labels that come hours or days later."""

import csv
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

NAMES = (
    "transaction", "date", "amount", "account_age_days", "payments_of_the_day", "country", "merchant", "hour",
    "is_fraud", "known_at",
)  # fmt: skip

PAYMENTS = 10_000

FRAUD_SHARE = 0.02

MEAN_GAP_S = 60.0
"""Seconds between two payments: 10,000 of them span a week, which topics accept by default."""

MEDIAN_DELAY_S = 6 * 3_600.0

UNKNOWN_AGE_SHARE = 0.1
"""The share of payments whose account has no known age."""

MERCHANTS = 300

_FRAUD_COUNTRIES = ("DE", "US", "US", "BR")
_COUNTRIES = ("DE", "DE", "DE", "FR", "IT", "NL", "US")


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
            country = numbers.choice(_FRAUD_COUNTRIES if is_fraud else _COUNTRIES)
            merchant = f"m{int(MERCHANTS * numbers.random() ** 2)}"
            values = (
                f"{amount:.2f}", "" if numbers.random() < UNKNOWN_AGE_SHARE else age, often, country, merchant, at.hour
            )  # fmt: skip
            times = (at.isoformat(timespec="seconds"), known_at.isoformat(timespec="seconds"))
            writer.writerow((f"t{number}", times[0], *values, "yes" if is_fraud else "no", times[1]))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--payments", type=click.IntRange(1), default=PAYMENTS, show_default=True, help="Rows of the file.")
def main(path: Path, payments: int) -> None:
    """Write a file of payments."""
    write_payments(path, payments)


if __name__ == "__main__":
    main()
