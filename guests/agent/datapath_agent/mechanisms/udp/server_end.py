"""The mechanism's other end: answers until it is told to stop."""

from __future__ import annotations

from datapath_agent.mechanism import Harness, mechanism_result
from datapath_agent.mechanisms.udp.answers import Answers
from datapath_agent.mechanisms.udp.end import LOOK_S, End
from datapath_agent.mechanisms.udp.figures import LAYER, counters
from datapath_agent.mechanisms.udp.sockets import listening
from datapath_agent.team import Member, Team
from datapath_agent.workload import HIGHER, metric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from datapath_agent.mechanisms.udp.end import Process, Report
    from datapath_agent.mechanisms.udp.lanes import Sender
    from datapath_agent.run import Run


def serve(run: Run, policy: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    endpoints = listening(parameters["address"], parameters["port"], parameters["workers"])
    address, port = endpoints[0].getsockname()
    end = End(policy, parameters, [[endpoint] for endpoint in endpoints], is_server=True)

    def make(_worker: int, senders: list[Sender]) -> Answers:
        return Answers(senders, policy["route"])

    def live(member: Member, process: Process, protocol: Answers) -> Report:
        member.ready()
        process.restart()
        while not member.should_stop:
            process.events.turn(LOOK_S)
        return {
            "answered": protocol.answered,
            "bulk_received": protocol.bulk_received,
            "counted": process.counted(),
        }

    try:
        with Team(run) as team:
            end.fork(team, make, live)
            team.start()
            run.ready(address=address, port=port)
            reports = list(team.collect().values())
    finally:
        end.close()
    answered = sum(report.get("answered", 0) for report in reports)
    bulk = sum(report.get("bulk_received", 0) for report in reports)
    return mechanism_result(
        [
            metric("answered", "requests", HIGHER, answered),
            metric("bulk_received", "datagrams", HIGHER, bulk),
        ],
        counters=counters([report["counted"] for report in reports], answered + bulk),
        fidelity="model",
        layer=LAYER,
        harness=Harness(0.0, 0.0, 0, "measured at the client's end"),
    )
