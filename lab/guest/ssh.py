"""One ssh session to a guest: kept alive, host key pinned, a deadline on every command.

Only connecting is tried again; a command is sent once, whatever becomes of it.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import LabError

# What paramiko has to say is in the errors raised here.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

KEEPALIVE_INTERVAL_S = 10
# Tried first: paramiko's own first choice, a post-quantum exchange, is slow in an emulated guest.
FAST_KEX = "curve25519-sha256@libssh.org"
POLL_INTERVAL_S = 0.1
# Each connection starts an sshd in the guest: rather wait for one than start another.
BANNER_S = 30.0
# Answers of the guest, which would be the same the next time.
FINAL = (paramiko.AuthenticationException, paramiko.ssh_exception.IncompatiblePeer)
OnOutput = Callable[[bytes], None]


class SshLost(LabError):
    """The session to the guest ended under a command, or could not be made."""


@dataclass(frozen=True)
class SshTarget:
    """Where a guest answers and how both ends prove who they are."""

    guest: str
    port: int
    key: Path
    host_key: paramiko.PKey
    user: str = "root"

    @property
    def where(self) -> str:
        return f"guest {self.guest} (127.0.0.1:{self.port})"


@dataclass(frozen=True)
class Finished:
    """A command that ended in the guest. Output is decoded with undecodable bytes replaced."""

    command: str
    returncode: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    elapsed_s: float

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")


class Channel:
    """A command's stdin and stdout as a byte stream; closing it hangs up on the command."""

    def __init__(self, session: Session, command: str) -> None:
        self._target = session.target
        self._channel = session.open_channel(command)
        self._buffer = b""

    def send(self, data: bytes) -> None:
        try:
            self._channel.sendall(data)
        except OSError as error:
            raise SshLost(f"the channel closed: {error}", where=self._target.where) from error

    def readline(self, deadline: Deadline) -> bytes:
        """The next line without its newline; b"" at the end of the stream."""
        while b"\n" not in self._buffer:
            self._channel.settimeout(max(deadline.remaining_s, 0.001))
            try:
                data = self._channel.recv(1 << 16)
            except TimeoutError:
                raise DeadlineExceeded(
                    "no answer in time", where=self._target.where, elapsed_s=deadline.elapsed_s
                ) from None
            if not data:
                rest, self._buffer = self._buffer, b""
                return rest
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line or b" "

    def stderr_tail(self) -> str:
        """What the command has said on stderr and nobody has read, for error messages."""
        data = b""
        while self._channel.recv_stderr_ready():
            data += self._channel.recv_stderr(1 << 16)
        return data.decode(errors="replace")

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Session:
    """An authenticated connection to one guest; a context manager."""

    def __init__(self, target: SshTarget, transport: paramiko.Transport) -> None:
        self.target = target
        self._transport = transport

    @property
    def alive(self) -> bool:
        return self._transport.is_active()

    def open_channel(self, command: str, *, terminal: bool = False) -> paramiko.Channel:
        try:
            channel = self._transport.open_session(timeout=30)
            if terminal:
                channel.get_pty()
            channel.exec_command(command)
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise SshLost(
                f"cannot start `{command}`: {error}",
                where=self.target.where,
                hint="`lab console` shows what the guest says",
            ) from error
        return channel

    def run(
        self,
        command: str,
        *,
        deadline: Deadline,
        input: bytes = b"",
        on_stdout: OnOutput | None = None,
        on_stderr: OnOutput | None = None,
    ) -> Finished:
        """Run a shell command to its end; output is streamed to the callbacks as it arrives.

        Raises DeadlineExceeded (the channel is closed, so sshd hangs up on the command) and
        SshLost. A status other than 0 is a result, not an error.
        """
        start_s = time.monotonic()
        channel = self.open_channel(command)
        stdout, stderr = bytearray(), bytearray()
        with contextlib.closing(channel):
            if input:
                channel.sendall(input)
            channel.shutdown_write()
            while True:
                # Asked before reading: what arrives in between is read in another round.
                ended = channel.exit_status_ready() and (channel.eof_received or channel.closed)
                busy = False
                if channel.recv_ready():
                    busy = True
                    data = channel.recv(1 << 16)
                    stdout += data
                    if on_stdout:
                        on_stdout(data)
                if channel.recv_stderr_ready():
                    busy = True
                    data = channel.recv_stderr(1 << 16)
                    stderr += data
                    if on_stderr:
                        on_stderr(data)
                if busy:
                    continue
                if ended:
                    break
                if (channel.closed or not self.alive) and not channel.exit_status_ready():
                    raise SshLost(
                        f"the connection was lost during `{command}`",
                        where=self.target.where,
                        detail=stderr.decode(errors="replace") or None,
                        elapsed_s=time.monotonic() - start_s,
                    )
                if deadline.expired:
                    raise DeadlineExceeded(
                        f"`{command}` did not end in time",
                        where=self.target.where,
                        detail=stderr.decode(errors="replace") or None,
                        hint="it may still run in the guest; a larger time-out lets it end",
                        elapsed_s=time.monotonic() - start_s,
                    )
                # Wakes on data as well as on the channel's end.
                select.select([channel], [], [], min(POLL_INTERVAL_S, deadline.remaining_s))
            return Finished(
                command,
                channel.recv_exit_status(),
                bytes(stdout),
                bytes(stderr),
                time.monotonic() - start_s,
            )

    def channel(self, command: str) -> Channel:
        """`command` as a byte stream, for a conversation with it."""
        return Channel(self, command)

    @contextlib.contextmanager
    def sftp(self) -> Iterator[paramiko.SFTPClient]:
        """File transfer over this session."""
        client = self._transport.open_sftp_client()
        assert client is not None
        try:
            yield client
        finally:
            client.close()

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def greet(target: SshTarget, deadline: Deadline, *, alive: Callable[[], None]) -> socket.socket:
    """Connect until sshd shows its banner; the connection, with the banner still unread.

    QEMU accepts the connection before the guest does, so only a banner tells that sshd runs.
    `alive` is called between attempts and raises when waiting has become pointless.
    """
    while True:
        with contextlib.suppress(OSError):
            connection = socket.create_connection(("127.0.0.1", target.port), timeout=5)
            if _shows_banner(connection, deadline.within(BANNER_S), alive):
                return connection
        alive()
        if deadline.expired:
            raise DeadlineExceeded(
                "no ssh server answered", where=target.where, elapsed_s=deadline.elapsed_s
            )
        time.sleep(POLL_INTERVAL_S)


def _shows_banner(connection: socket.socket, deadline: Deadline, alive: Callable[[], None]) -> bool:
    """Whether ssh's first bytes arrive; otherwise the connection is closed."""
    try:
        while not select.select([connection], [], [], POLL_INTERVAL_S)[0]:
            alive()
            if deadline.expired:
                connection.close()
                return False
        if connection.recv(4, socket.MSG_PEEK) == b"SSH-":
            return True
    except BaseException:
        connection.close()
        raise
    connection.close()
    return False


def authenticate(target: SshTarget, connection: socket.socket, deadline: Deadline) -> Session:
    """Key exchange, host key check and log-in on a greeted connection."""
    transport = paramiko.Transport(connection)
    options = transport.get_security_options()
    options.kex = (FAST_KEX, *(kex for kex in options.kex if kex != FAST_KEX))
    # An emulated guest may need longer than paramiko's 15 s for each of these.
    transport.banner_timeout = transport.auth_timeout = max(deadline.remaining_s, 1)
    transport.handshake_timeout = max(deadline.remaining_s, 1)
    try:
        transport.start_client(timeout=max(deadline.remaining_s, 1))
        if transport.get_remote_server_key() != target.host_key:
            raise SshLost(
                "the host key is not the one the lab gave this guest",
                where=target.where,
                hint="another program answers on this port: `lab down` and `lab up` again",
            )
        transport.auth_publickey(target.user, paramiko.Ed25519Key(filename=str(target.key)))
        transport.set_keepalive(KEEPALIVE_INTERVAL_S)
    except (paramiko.SSHException, OSError, EOFError) as error:
        transport.close()
        raise SshLost(
            f"ssh log-in failed: {error}", where=target.where, elapsed_s=deadline.elapsed_s
        ) from error
    except BaseException:
        transport.close()
        raise
    return Session(target, transport)


def connect(
    target: SshTarget, deadline: Deadline, *, alive: Callable[[], None] = lambda: None
) -> Session:
    """Greet and authenticate; a connection that breaks in the handshake is made again."""
    while True:
        connection = greet(target, deadline, alive=alive)
        try:
            return authenticate(target, connection, deadline)
        except SshLost as error:
            if deadline.expired or isinstance(error.__cause__, FINAL) or not error.__cause__:
                raise
            time.sleep(POLL_INTERVAL_S)
