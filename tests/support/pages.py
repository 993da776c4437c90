"""Read the pages of a worker."""

import http.client
from contextlib import closing


def get(port: int, path: str = "/ready", method: str = "GET", timeout_s: float = 20.0) -> tuple[int, str]:
    """Return the status and the text of a page."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
