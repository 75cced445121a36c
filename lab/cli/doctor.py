"""`lab doctor`: is this host fit for labs, and if not, what mends it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lab.errors import Exit

if TYPE_CHECKING:
    from lab.host.doctor import Check


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Check everything that labs need of this host; exit 5 if something is broken."""
    from lab.host.doctor import checks
    from lab.host.state import state_root
    from lab.plan import FIRST_SSH_PORT, MAX_SLOTS
    from lab.topology.model import MAX_GUESTS

    ports = range(FIRST_SSH_PORT, FIRST_SSH_PORT + MAX_SLOTS * MAX_GUESTS)
    found = [*checks(state_root(), ports), _labs()]
    ok = all(check.ok for check in found)
    if as_json:
        print(json.dumps({"ok": ok, "checks": [asdict(check) for check in found]}, indent=1))
    else:
        for check in found:
            print(_lines(check))
    raise typer.Exit(Exit.OK if ok else Exit.BROKEN_LAB)


def _labs() -> Check:
    """Labs that nobody answers for any more, and networks that no lab owns."""
    from lab.errors import LabError
    from lab.fabric.namespace import leftovers
    from lab.host.doctor import Check
    from lab.record import records

    try:
        known = records()
    except LabError as error:
        return Check(
            "labs", "broken", str(error), "no lab can be told from another", error.hint or ""
        )
    lapsed = [
        f"{record.identity.name} ({why})" for record in known if (why := record.lease.lapsed())
    ]
    if lapsed:
        return Check(
            "labs",
            "warning",
            f"to be reaped: {', '.join(lapsed)}",
            "their guests keep memory, ports and disk space",
            "lab reap",
        )
    owned = {name for record in known for name in (record.identity.prefix, *record.taps)}
    # Only root makes networks.
    networks = leftovers("lab-") if os.geteuid() == 0 else []
    orphans = [name for name in networks if name not in owned]
    if orphans:
        return Check(
            "labs",
            "warning",
            f"network namespaces that no lab here owns: {', '.join(orphans)}",
            "another state directory's labs (LAB_STATE_DIR), or remains of one that was deleted",
            "; ".join(f"ip netns delete {name}" for name in orphans),
        )
    return Check("labs", "ok", f"{len(known)} up" if known else "none")


def _lines(check: Check) -> str:
    lines = [f"{check.state:8} {check.name:16} {check.found}"]
    if check.why:
        lines.append(f"{'':25} why:  {check.why}")
    if check.remedy:
        lines.append(f"{'':25} mend: {check.remedy}")
    return "\n".join(lines)
