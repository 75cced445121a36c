"""`lab up`, `down`, `status` and `reap`."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.options import accelerator_option, seconds_option
from lab.deadline import Deadline
from lab.errors import InputError, LabError

if TYPE_CHECKING:
    from lab.preparation import Prepared
    from lab.record import Record
    from lab.topology.load import LoadedTopology

DEFAULT_TOPOLOGY = Path("topologies/default.yaml")
REAP_S = 300.0

TopologyArgument = Annotated[Path, typer.Argument(help="The topology's YAML file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def up(
    topology: TopologyArgument = DEFAULT_TOPOLOGY,
    accel: Annotated[
        str, typer.Option(help="auto, kvm (never falls back) or tcg.", metavar="ACCEL")
    ] = "auto",
    name: Annotated[
        str | None, typer.Option(help="The lab's name, by default the topology's.")
    ] = None,
    timeout: Annotated[str, typer.Option(help="The deadline of it all.")] = "45min",
    expires: Annotated[str, typer.Option(help="After this, `lab reap` may remove it.")] = "24h",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print domain XML and commands; create no lab.")
    ] = False,
) -> None:
    """Bring a topology up: image, guests, network and agent. A second time changes nothing."""
    from lab.bringup import bring_up
    from lab.preparation import prepare
    from lab.progress import Progress
    from lab.record import load
    from lab.teardown import stop_idle_daemons
    from lab.topology.load import load as load_topology
    from lab.topology.model import LAB_NAME_PATTERN

    if name is not None and not re.fullmatch(LAB_NAME_PATTERN, name):
        raise InputError(f"--name {name}: letters, digits and dashes, a letter first, at most 40")
    accelerator = accelerator_option(accel)
    life_s = seconds_option("--expires", expires)
    deadline = Deadline(seconds_option("--timeout", timeout))
    progress = Progress()
    loaded = load_topology(topology)
    name = name or loaded.topology.name
    if not dry_run and (record := load(name)):
        _keep_up(record, loaded, progress)
        return
    prepared = prepare(loaded, wanted=accelerator, progress=progress, deadline=deadline)
    if dry_run:
        _print_dry_run(prepared, name)
        stop_idle_daemons(deadline)
        return
    progress.say(f"accelerator: {prepared.machine.accelerator} ({prepared.accelerator_reason})")
    record = bring_up(prepared, name, progress=progress, deadline=deadline, life_s=life_s)
    _print_lab(_describe(record))
    print(f"lab {record.identity.name} is up in {deadline.elapsed_s:.1f} s")


def _keep_up(record: Record, loaded: LoadedTopology, progress: Any) -> None:
    """A lab of this name exists: bring its agents up to date, or say why it is not this one."""
    from lab.guest.deploy import update_agents
    from lab.running import find

    name = record.identity.name
    with find(name) as lab:
        if lab.topology != loaded.topology:
            raise InputError(
                f"lab {name} is up from a different topology ({record.source})",
                where=str(loaded.path),
                hint=f"`lab down {name}` first, or use --name",
            )
        for guest in lab.guests.values():
            lab.provider.check_alive(guest.plan)
        updated = update_agents(lab, progress=progress)
        _print_lab(_describe(record))
        print(f"lab {name} was up already" + (f"; agent deployed to {updated}" if updated else ""))


def _print_dry_run(prepared: Prepared, name: str) -> None:
    from lab.fabric.commands import shell_commands
    from lab.host.state import labs_dir
    from lab.plan import Identity, plan
    from lab.providers.libvirt.domain import render
    from lab.providers.storage import disk_commands

    topology = prepared.loaded.topology
    # The id and slot of a real lab are drawn when it is made.
    lab = plan(topology, Identity(name, "000000", 0), labs_dir() / name)
    if prepared.machine.fabric == "namespace":
        print("\n".join(shell_commands(lab.fabric)))
    for guest in lab.guests.values():
        image = prepared.images[guest.name]
        for command in disk_commands(guest, image):
            print(shlex.join(command))
        boot = prepared.boot(guest.name, guest.management_mac, guest.seed)
        print(render(guest, lab.identity, image, boot, prepared.machine), end="")


def down(
    lab: Annotated[
        str | None, typer.Argument(help="A lab's name or its YAML file; without it, the only lab.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Take every lab down.")] = False,
) -> None:
    """Take a lab down from what is recorded about it. A second time is fine."""
    from lab.record import records
    from lab.teardown import down as take_down

    known = records()
    if everything:
        names = [record.identity.name for record in known]
    elif lab is None:
        if len(known) > 1:
            raise InputError(
                f"several labs are up: {', '.join(each.identity.name for each in known)}",
                hint="name one, or use --all",
            )
        names = [record.identity.name for record in known]
    else:
        path = str(Path(lab).resolve())
        names = [record.identity.name for record in known if record.source == path] or [
            Path(lab).stem if lab.endswith((".yaml", ".yml")) else lab
        ]
    for name in names:
        print(f"lab {name} is down" if take_down(name) else f"lab {name} was not up")
    if not names:
        print("no lab is up")


def reap() -> None:
    """Remove what killed runs, expired leases and earlier boots have left."""
    from lab.teardown import reap as reap_lapsed

    reaped = reap_lapsed(Deadline(REAP_S))
    for name, why in reaped:
        print(f"reaped {name}: {why}")
    if not reaped:
        print("nothing to reap")


def status(as_json: JsonOption = False) -> None:
    """Labs, guests, addresses, and how long each phase of their bring-up took."""
    from lab.record import records

    labs = [_describe(record) for record in records()]
    if as_json:
        print(json.dumps({"labs": labs}, indent=1))
        return
    for lab in labs:
        _print_lab(lab)
    if not labs:
        print("no lab is up")


def _describe(record: Record) -> dict[str, Any]:
    from lab.running import RunningLab

    described: dict[str, Any] = {
        "name": record.identity.name,
        "id": record.identity.id,
        "state": record.state,
        "source": record.source,
        "accelerator": record.accelerator,
        "fabric": record.fabric,
        "expires_at": record.lease.expires_at,
        "guests": {},
    }
    with RunningLab(record) as lab:
        try:
            running = lab.provider.names() if record.uri else set()
        except LabError as error:
            # The record still tells names and addresses when libvirt is not there to ask.
            described["problem"] = error.message
            running = set()
        for name, guest in lab.guests.items():
            described["guests"][name] = {
                "domain": guest.plan.domain,
                "running": guest.plan.domain in running,
                "ssh": f"127.0.0.1:{guest.plan.ssh_port}",
                "addresses": {nic: str(ip) for nic, ip in guest.addresses.items()},
                "console": str(guest.plan.console_log),
                "phases_s": {k: round(v, 3) for k, v in record.phases.get(name, {}).items()},
            }
    return described


def _print_lab(lab: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"lab {lab['name']}: {lab['state']}, {lab['accelerator']}")
    for heading in ("guest", "ssh", "data addresses", "state", "bring-up, seconds a phase"):
        table.add_column(heading)
    for name, guest in lab["guests"].items():
        table.add_row(
            name,
            guest["ssh"],
            " ".join(f"{nic} {ip}" for nic, ip in guest["addresses"].items()),
            "running" if guest["running"] else "not running",
            "  ".join(f"{phase} {seconds:.1f}" for phase, seconds in guest["phases_s"].items()),
        )
    Console().print(table)
    if "problem" in lab:
        print(f"libvirt could not be asked: {lab['problem']}")
