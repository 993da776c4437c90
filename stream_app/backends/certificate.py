"""The reason why a broker's certificate is not trusted; librdkafka reports only that verification failed."""

import socket
import ssl
from pathlib import Path

_HANDSHAKE_TIMEOUT_S = 2.0


def certificate_problem(address: str, ca_location: str | None) -> str | None:
    """Connect to an address and return OpenSSL's reason for not trusting its certificate.

    Args:
        address: `host:port`, or several addresses separated by commas, of which the first is used.
        ca_location: A file or a folder of certificates, as in `ssl.ca.location`; None: the system's certificates.

    Returns:
        The reason; None if the certificate is trusted, or the address cannot be reached.
    """
    host, _, port = address.partition(",")[0].strip().rpartition(":")
    try:
        folder = ca_location if ca_location and Path(ca_location).is_dir() else None
        context = ssl.create_default_context(cafile=None if folder else ca_location, capath=folder)
        with (
            socket.create_connection((host.strip("[]"), int(port)), _HANDSHAKE_TIMEOUT_S) as connection,
            context.wrap_socket(connection, server_hostname=host.strip("[]")),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (OSError, ValueError):
        return None
