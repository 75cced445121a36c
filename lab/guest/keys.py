"""A lab's own ssh keys: one to log in with, and one host key a guest, pinned before it boots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lab.plan import GuestPlan


@dataclass(frozen=True)
class KeyPair:
    """An ed25519 key in OpenSSH's formats: the private key's PEM, the public key's line."""

    private: bytes
    public: str


def generate() -> KeyPair:
    key = Ed25519PrivateKey.generate()
    return KeyPair(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        ),
        key.public_key()
        .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        .decode(),
    )


@dataclass(frozen=True)
class Keyring:
    """The key files of a lab."""

    directory: Path

    @property
    def login_key(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def create(self, guests: list[GuestPlan]) -> tuple[KeyPair, dict[str, KeyPair]]:
        """Make every key and write down what the host needs: (log-in key, host key a guest)."""
        login = generate()
        hosts = {guest.name: generate() for guest in guests}
        self.directory.mkdir(mode=0o700)
        self.login_key.touch(mode=0o600)
        self.login_key.write_bytes(login.private)
        self.known_hosts.write_text(
            "".join(f"{_address(guest)} {hosts[guest.name].public}\n" for guest in guests)
        )
        return login, hosts

    def host_key_line(self, guest: GuestPlan) -> str:
        """The guest's pinned public key, as in known_hosts: `ssh-ed25519 AAAA...`."""
        for line in self.known_hosts.read_text().splitlines():
            address, _, key = line.partition(" ")
            if address == _address(guest):
                return key
        raise KeyError(guest.name)


def _address(guest: GuestPlan) -> str:
    return f"[127.0.0.1]:{guest.ssh_port}"
