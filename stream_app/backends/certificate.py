"""Why a broker's certificate is not accepted: librdkafka says that it is not, but not what is wrong with it."""

import socket
import ssl
from pathlib import Path

LOOK_TIMEOUT_S = 2.0
"""For one handshake."""


def certificate_problem(address: str, ca_location: str | None) -> str | None:
    """OpenSSL's reason for not trusting the certificate at an address; None where it has none, or cannot be asked.

    Args:
        address: `host:port`, or several with commas: the first is asked.
        ca_location: As `ssl.ca.location`: a file or a folder of certificates; None: those of the system.
    """
    host, _, port = address.partition(",")[0].strip().rpartition(":")
    try:
        folder = ca_location if ca_location and Path(ca_location).is_dir() else None
        context = ssl.create_default_context(cafile=None if folder else ca_location, capath=folder)
        with (
            socket.create_connection((host.strip("[]"), int(port)), LOOK_TIMEOUT_S) as connection,
            context.wrap_socket(connection, server_hostname=host.strip("[]")),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (OSError, ValueError):
        return None
