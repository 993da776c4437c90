"""What `areba dlq resend` has sent and refused, as lines and as a document for JSON."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stream_app.admin.dead_letters.cures import warnings
from stream_app.admin.dead_letters.record import StoredDeadLetter

MAX_NAMED = 10
"""How many of the dead letters that cannot be sent are named for each reason; the others are counted."""


@dataclass(slots=True)
class ResendResult:
    """The result of a resend, or of a dry run.

    Attributes:
        sent: Number of dead letters that were sent back, by their reason and topic.
        refused: The first `MAX_NAMED` dead letters that cannot be sent back, by what prevents it.
        refused_counts: Number of dead letters that cannot be sent back, by what prevents it.
        before: Number of selected dead letters that were sent back before.
        left: Number of selected dead letters beyond `limit`.
        old: Of those sent, the number that is older than their topic retains records, by topic.
        is_rehearsal: Whether nothing was sent.
    """

    sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: dict[str, list[str]] = field(default_factory=dict)
    refused_counts: Counter[str] = field(default_factory=Counter)
    before: int = 0
    left: int = 0
    old: Counter[str] = field(default_factory=Counter)
    is_rehearsal: bool = False

    @property
    def ok(self) -> bool:
        """Whether every selected dead letter can be sent back."""
        return not self.refused_counts

    def refuse(self, record: StoredDeadLetter, problem: str) -> None:
        """Count and name a dead letter that cannot be sent back."""
        self.refused_counts[problem] += 1
        named = self.refused.setdefault(problem, [])
        if len(named) < MAX_NAMED:
            named.append(str(record.record_id))

    def texts(self) -> Iterator[str]:
        """Yield lines that say what was sent to which topic, and what was not sent and why."""
        verb = "would be sent back" if self.is_rehearsal else "sent back"
        for (reason, topic), count in sorted(self.sent.items()):
            yield f"{count:>9,} {reason} {verb} to {topic}"
        for problem, count in self.refused_counts.most_common():
            more = f" and {count - MAX_NAMED:,} more" if count > MAX_NAMED else ""
            yield f"{count:>9,} not sent: {problem} ({', '.join(self.refused[problem])}{more})"
        for topic, count in sorted(self.old.items()):
            yield f"{count:>9,} are older than retention.ms of {topic}: they may be deleted before a worker reads them"
        if self.left:
            yield f"{self.left:>9,} more are left (--limit)"
        total = f"{self.sent.total():,} dead letters {verb}, {self.before:,} of those selected were sent back before"
        yield total + (": nothing was written (--dry-run)" if self.is_rehearsal else "")

    def to_plain(self) -> dict[str, Any]:
        """Return the content of the JSON document."""
        sent = ({"reason": reason, "topic": topic, "records": count} for (reason, topic), count in self.sent.items())
        refused = (
            {"problem": problem, "records": count, "first": self.refused[problem]}
            for problem, count in self.refused_counts.items()
        )
        return {
            "ok": self.ok,
            "dry_run": self.is_rehearsal,
            "sent": [*sent],
            "refused": [*refused],
            "sent_before": self.before,
            "left": self.left,
            "older_than_retention": dict(self.old),
            "warnings": [*self.warnings()],
        }

    def warnings(self) -> Iterator[str]:
        """Yield a line for each reason of the sent dead letters that a resend does not cure."""
        yield from warnings(reason for reason, _ in self.sent)
