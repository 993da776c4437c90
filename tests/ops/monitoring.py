"""The files for Prometheus and Grafana, and the queries in them."""

import json
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "ops" / "prometheus"
DASHBOARD = ROOT / "ops" / "grafana" / "areba.json"


def queries(dashboard: Path) -> Mapping[str, str]:
    """Return the queries of a dashboard by the title of their panel and their letter."""
    panels = json.loads(dashboard.read_text(encoding="utf-8"))["panels"]
    return {
        f"{panel['title']} {target['refId']}": target["expr"] for panel in panels for target in panel.get("targets", ())
    }
