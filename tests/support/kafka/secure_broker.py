"""A broker that asks for a password, has certificates, and permits only what an ACL allows.

Apart from an open listener, through which tests administer it, it has two listeners with SASL_SSL and SCRAM: one with
a valid certificate and one with an expired certificate. `keytool` makes the certificates, and each is its own CA.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported, but not marked so
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ops.local_kafka import cluster, processes
from ops.local_kafka.plan import broker_properties, free_ports
from stream_app.backends.kafka.cluster import KafkaCluster
from tests.support.kafka.waiting import DEADLINE_S, wait_until

USER = "app"
ADMINISTRATOR = "administrator"
PASSWORD = "correct-horse-battery"  # noqa: S105  (of a broker that lives for half a minute, on this machine alone)
STORE_PASSWORD = "only-for-this-test"  # noqa: S105  (as above)

TOOL_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class SecureKafka:
    """The addresses of the broker, and the certificate that its clients must trust.

    `kafka` is the broker itself, which `rotate` starts again.
    """

    kafka: cluster.LocalKafka
    open_servers: str
    servers: str
    expired_servers: str
    ca: Path
    expired_ca: Path
    other_ca: Path

    def client(self, **changed: str) -> dict[str, str]:
        """Return a correct `kafka.all` of a client, with these changes (an underscore stands for a dot)."""
        settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.ca),
        }
        return settings | {name.replace("_", "."): value for name, value in changed.items()}

    def set_password(self, name: str, password: str) -> None:
        """Set the password of a user, who need not exist yet."""
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(name, scram, password.encode())
        admin = self.admin  # without a name, it would be collected before its answers arrive
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(DEADLINE_S)

    def rotate(self, store: str) -> None:
        """Kill the broker, give its listener with the valid certificate another key store, and start it again."""
        self.kafka.kill(1)
        shutil.copy(self.ca.with_name(f"{store}.p12"), self.ca.with_name("in-use.p12"))
        self.kafka.restart(1)

    def add_user(self, name: str) -> None:
        """Add a user with `PASSWORD`, and wait until the broker lets it in."""
        self.set_password(name, PASSWORD)
        cluster = KafkaCluster(self.servers, self.client(sasl_username=name))
        wait_until(lambda: cluster.broker_count(2.0) > 0, f"the new user {name}")

    @property
    def admin(self) -> AdminClient:
        """A client that may do anything."""
        return AdminClient({"bootstrap.servers": self.open_servers})

    def allow(self, *rights: tuple[ResourceType, str, str]) -> None:
        """Grant a permission: a kind of resource, its name, and operations separated by commas."""
        bindings = [
            AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL,
                f"User:{USER}",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for kind, name, operations in rights
            for operation in operations.split(",")
        ]
        admin = self.admin
        for future in admin.create_acls(bindings).values():
            future.result(DEADLINE_S)


def _keytool(*arguments: str) -> None:
    command = ["keytool", *arguments, "-storepass", STORE_PASSWORD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout


def _certificate(folder: Path, name: str, since: str) -> tuple[Path, Path]:
    """Make a key store with a certificate that is valid for five days, and the certificate alone."""
    store, certificate = folder / f"{name}.p12", folder / f"{name}.pem"
    _keytool(
        *("-genkeypair", "-alias", name, "-keyalg", "EC", "-dname", f"CN={name}", "-ext", "SAN=ip:127.0.0.1"),
        *("-startdate", since, "-validity", "5", "-keystore", str(store), "-storetype", "PKCS12"),
    )
    _keytool("-exportcert", "-rfc", "-alias", name, "-keystore", str(store), "-file", str(certificate))
    return store, certificate


def _listeners(ports: Mapping[str, int], stores: Mapping[str, Path]) -> dict[str, str]:
    """Return the settings of the two secure listeners."""
    settings: dict[str, str] = {}
    for name, store in stores.items():
        of = f"listener.name.{name.lower()}"
        settings |= {
            f"{of}.ssl.keystore.location": str(store),
            f"{of}.ssl.keystore.password": STORE_PASSWORD,
            f"{of}.ssl.keystore.type": "PKCS12",
            f"{of}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            f"{of}.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        }
    return settings | {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMINISTRATOR}",  # for the open listener and the controller
        "allow.everyone.if.no.acl.found": "false",
        "_ports": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
    }


@contextmanager
def secure_kafka(folder: Path) -> Iterator[SecureKafka]:
    """Run the broker during the block."""
    good, ca = _certificate(folder, "good", "-1d")
    in_use = Path(shutil.copy(good, folder / "in-use.p12"))
    old, expired_ca = _certificate(folder, "expired", "-10d")
    _, other_ca = _certificate(folder, "other", "-1d")
    ports = dict(zip(("SECURE", "EXPIRED"), free_ports(2, []), strict=True))
    extra = _listeners(ports, {"SECURE": in_use, "EXPIRED": old})
    more = extra.pop("_ports")
    plain = broker_properties

    def properties(*arguments: object) -> dict[str, object]:
        settings = {**plain(*arguments), **extra}  # type: ignore[arg-type]
        for name in ("listeners", "advertised.listeners"):
            settings[name] = f"{settings[name]},{more}"
        protocols = ",".join(f"{name}:SASL_SSL" for name in ports)
        settings["listener.security.protocol.map"] = f"{settings['listener.security.protocol.map']},{protocols}"
        return settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "broker_properties", properties)
        kafka = cluster.start(1)
    with kafka:
        places = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        found = SecureKafka(
            kafka, kafka.bootstrap_servers, places["SECURE"], places["EXPIRED"], ca, expired_ca, other_ca
        )
        found.add_user(USER)
        yield found
