"""The host's end of a conversation with the agent in a guest."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from lab.deadline import Deadline, DeadlineExceeded
from lab.errors import LabError
from lab.guest.workloads import Workload

# The agent gives up this much earlier than the host, so that its partial result still arrives.
AGENT_MARGIN_S = 5.0
# For ending a run after something else has failed.
HANG_UP_S = 10.0

# native: the device class and driver that one has in production (virtio). emulated: software
# standing in for hardware (e1000e, rxe): its figures say that it works, not how fast. model: the
# user-space shape of a driver's mechanism.
Fidelity = Literal["native", "emulated", "model"]

OnProgress = Callable[[str], None]


class Channel(Protocol):
    """The agent's stdin and stdout, as ssh carries them."""

    def send(self, data: bytes) -> None: ...

    def readline(self, deadline: Deadline) -> bytes:
        """A line without its newline, b"" at the end of the stream."""

    def stderr_tail(self) -> str:
        """What the agent has said on stderr."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    direction: Literal["higher", "lower"]
    value: float

    def __str__(self) -> str:
        return f"{self.value:.4g} {self.unit}"


@dataclass(frozen=True)
class Harness:
    """What a mechanism's own code costs an operation, from null runs: mean and spread."""

    cost_us: float
    spread_us: float
    runs: int
    what: str


@dataclass(frozen=True)
class MechanismRun:
    """What a run of a mechanism tells beside its metrics.

    `counters` are the mechanism's own evidence, `layer` says what a claim rests on, `histograms`
    hold [lowest value of a bucket, count] pairs, `lines` the result in the formats of the
    published change's own tool.
    """

    name: str
    preset: str
    policy: Mapping[str, Any]
    parameters: Mapping[str, Any]
    counters: Mapping[str, float]
    layer: str
    harness: Harness
    histograms: Mapping[str, Any]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What a run measured; `partial` if it was cut short. Samples carry their unit in the name.

    `raw` is the report of the tool that measured, `command` its command line in the guest;
    `clock_step_s` is how far someone set the guest's clock meanwhile (figures do not use it).
    """

    workload: str
    metrics: tuple[Metric, ...]
    samples: Mapping[str, tuple[int, ...]]
    raw: Any
    command: str
    partial: bool
    fidelity: Fidelity = "native"
    clock_step_s: float = 0.0
    mechanism: MechanismRun | None = None

    def __getitem__(self, name: str) -> Metric:
        for metric in self.metrics:
            if metric.name == name:
                return metric
        known = ", ".join(metric.name for metric in self.metrics)
        raise KeyError(f"{self.workload} measured no {name}; it measured {known}")


@dataclass(frozen=True)
class Hello:
    """The agent's introduction; `facts` describe the guest as it is now."""

    version: str
    python: str
    kernel: str
    facts: Mapping[str, Any]


class AgentError(LabError):
    """The agent refused or could not do what it was asked.

    `kind` classifies it (see datapath_agent.protocol.Fault), `field` is the part of the request
    at fault, `partial` what was measured until then.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        where: str,
        field: str | None = None,
        detail: str | None = None,
        partial: Result | None = None,
    ) -> None:
        super().__init__(message, where=where, detail=detail)
        self.kind = kind
        self.field = field
        self.partial = partial


class AgentClient:
    """Asks one agent for one thing at a time or several; for use from a single thread."""

    def __init__(self, channel: Channel, guest: str) -> None:
        self.guest = guest
        self._channel = channel
        self._ids = itertools.count(1)
        self._unread: defaultdict[int, deque[dict[str, Any]]] = defaultdict(deque)

    def hello(self, deadline: Deadline) -> Hello:
        """Versions and facts, asked of the guest now."""
        identifier = next(self._ids)
        self._request(id=identifier, op="hello")
        event = self._event(identifier, deadline)
        if event["event"] != "hello":
            raise self._error("hello", event, None)
        return Hello(event["version"], event["python"], event["kernel"], event["facts"])

    def run(
        self, workload: Workload, *, deadline: Deadline, on_progress: OnProgress | None = None
    ) -> Result:
        """Run `workload` to its end.

        Raises AgentError, with what was measured so far when the deadline cut it short, and
        LabError naming the guest when the channel is lost.
        """
        with self._begin(workload, deadline, on_progress) as running:
            return running.wait(deadline)

    @contextlib.contextmanager
    def start(self, workload: Workload, *, deadline: Deadline) -> Iterator[RunningWorkload]:
        """A server for the length of the block: it is listening when the block begins."""
        with self._begin(workload, deadline, None) as running:
            running.wait_ready(deadline)
            yield running

    @contextlib.contextmanager
    def _begin(
        self, workload: Workload, deadline: Deadline, on_progress: OnProgress | None
    ) -> Iterator[RunningWorkload]:
        """A run that is surely over, one way or another, after the block."""
        identifier = next(self._ids)
        remaining_s = deadline.remaining_s
        self._request(
            id=identifier,
            op="run",
            workload=workload.name,
            parameters=workload.parameters(),
            deadline_s=max(remaining_s - AGENT_MARGIN_S, remaining_s / 2, 0.001),
        )
        running = RunningWorkload(self, workload, identifier, on_progress)
        try:
            yield running
        except BaseException:
            with contextlib.suppress(LabError):
                running.stop(Deadline(HANG_UP_S))
            raise
        running.stop(deadline)

    def _request(self, **request: Any) -> None:
        try:
            self._channel.send(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._lost(f"the channel to the agent broke: {error}") from error

    def _event(self, identifier: int, deadline: Deadline) -> dict[str, Any]:
        """The next event of that request; those of others are kept for them."""
        while not self._unread[identifier]:
            try:
                line = self._channel.readline(deadline)
            except DeadlineExceeded as error:
                error.where = error.where or f"guest {self.guest}"
                raise
            except OSError as error:
                raise self._lost(f"the channel to the agent broke: {error}") from error
            if not line:
                raise self._lost("the agent ended")
            try:
                event = json.loads(line)
                self._unread[event["id"]].append(event)
            except (ValueError, KeyError, TypeError):
                raise self._lost(f"the agent said {line[:200]!r}, which is no event") from None
        return self._unread[identifier].popleft()

    def _lost(self, message: str) -> LabError:
        return LabError(
            message,
            where=f"guest {self.guest}",
            detail=self._channel.stderr_tail() or None,
            hint="`lab console` shows what the guest says",
        )

    def _error(self, what: str, event: Mapping[str, Any], partial: Result | None) -> AgentError:
        field = event.get("field")
        message = event.get("message", f"unexpected event {event.get('event')!r}")
        return AgentError(
            f"{what}: {field}: {message}" if field else f"{what}: {message}",
            kind=event.get("kind", "internal"),
            where=f"guest {self.guest}",
            field=field,
            detail=event.get("detail"),
            partial=partial,
        )


class RunningWorkload:
    """A run under way. `address` and `port` are where a server listens, once it is ready."""

    def __init__(
        self,
        agent: AgentClient,
        workload: Workload,
        identifier: int,
        on_progress: OnProgress | None,
    ) -> None:
        self._agent = agent
        self._workload = workload
        self._id = identifier
        self._on_progress = on_progress
        self._samples: defaultdict[str, list[int]] = defaultdict(list)
        self._outcome: Result | AgentError | None = None
        self.address = ""
        self.port = 0

    def wait_ready(self, deadline: Deadline) -> None:
        while not self.port:
            if self._outcome is None:
                self._step(deadline)
            elif isinstance(self._outcome, AgentError):
                raise self._outcome
            else:
                raise AgentError(
                    f"{self._workload.name} ended before it was ready",
                    kind="internal",
                    where=f"guest {self._agent.guest}",
                    partial=self._outcome,
                )

    def wait(self, deadline: Deadline) -> Result:
        """What the run measured, once it has ended by itself."""
        while self._outcome is None:
            self._step(deadline)
        if isinstance(self._outcome, AgentError):
            raise self._outcome
        return self._outcome

    def stop(self, deadline: Deadline) -> Result | None:
        """End the run, if it has not ended; what it measured until now, if that is anything."""
        if self._outcome is None:
            self._agent._request(id=self._id, op="stop")
        while self._outcome is None:
            self._step(deadline)
        if isinstance(self._outcome, AgentError):
            if self._outcome.kind == "requested":
                return None
            raise self._outcome
        return self._outcome

    def _step(self, deadline: Deadline) -> None:
        event = self._agent._event(self._id, deadline)
        match event["event"]:
            case "progress":
                if self._on_progress:
                    self._on_progress(event["doing"])
            case "ready":
                self.address, self.port = event["address"], event["port"]
            case "sample":
                self._samples[event["name"]] += event["values"]
            case "result":
                self._outcome = self._result(event["result"])
            case "stopped":
                self._outcome = self._stopped(event)
            case _:
                partial = self._result(event["result"]) if event.get("result") else None
                self._outcome = self._agent._error(self._workload.name, event, partial)

    def _result(self, told: Mapping[str, Any]) -> Result:
        return Result(
            workload=self._workload.name,
            metrics=tuple(Metric(**metric) for metric in told["metrics"]),
            samples={name: tuple(values) for name, values in self._samples.items()},
            raw=told["raw"],
            command=told["command"],
            partial=told["partial"],
            fidelity=told["fidelity"],
            clock_step_s=told["clock_step_s"],
            mechanism=_mechanism(told) if "mechanism" in told else None,
        )

    def _stopped(self, event: Mapping[str, Any]) -> Result | AgentError:
        """Being stopped on request, with something to show, is an end like any other."""
        if event["result"] and event["reason"] == "requested":
            return self._result(event["result"])
        return AgentError(
            f"{self._workload.name} was stopped: {event['reason']}",
            kind=event["reason"],
            where=f"guest {self._agent.guest}",
            detail=event.get("why", {}).get("message"),
            partial=self._result(event["result"]) if event["result"] else None,
        )


def _mechanism(told: Mapping[str, Any]) -> MechanismRun:
    return MechanismRun(
        name=told["mechanism"],
        preset=told["preset"],
        policy=told["policy"],
        parameters=told["parameters"],
        counters=told["counters"],
        layer=told["layer"],
        harness=Harness(**told["harness"]),
        histograms=told["histograms"],
        lines=tuple(told["lines"]),
    )
