"""The kernel's own workers: io_uring as it is on this host, and the command they are given."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from datapath_agent.mechanisms.verbs import attributes, cells, commands, ring
from datapath_agent.mechanisms.verbs.steps import Request
from datapath_agent.protocol import Fault

from lab.errors import InputError
from lab.guest import catalogue

HEADER = Path("/usr/include/rdma/ib_user_verbs.h")


def has_io_uring() -> bool:
    try:
        ring.Ring(1, 1).close()
    except Fault:
        return False
    return True


needs_io_uring = pytest.mark.skipif(not has_io_uring(), reason="this host allows no io_uring")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def writers(fd: int, pairs: int) -> tuple[list[Request], object]:
    """Requests whose steps write (pair, step) to `fd`, and what has to outlive them."""
    words = ctypes.create_string_buffer(
        b"".join(bytes((pair, step)) for pair in range(pairs) for step in range(4))
    )
    start = ctypes.addressof(words)
    requests = [
        Request(tuple(ring.write(fd, start + 8 * pair + 2 * step, 2) for step in range(4)), pair)
        for pair in range(pairs)
    ]
    return requests, words


@needs_io_uring
@pytest.mark.parametrize("user", ["sync", "async"])
def test_every_pair_s_steps_are_made_in_order(user: str, pipe: tuple[int, int]) -> None:
    requests, _words = writers(pipe[1], 50)
    finished: list[Request] = []
    policy = {"user": user, "kernel": "io_wq"}
    evidence = cells.drive(policy, 8, iter(requests), finished.append)
    made = [tuple(word) for word in struct.iter_unpack("BB", os.read(pipe[0], 4096))]
    assert len(made) == 200
    for pair in range(50):
        assert [step for which, step in made if which == pair] == [0, 1, 2, 3]
    if user == "sync":
        assert made == sorted(made)
    else:
        assert made != sorted(made)
    assert len(finished) == 50
    assert evidence.failed == []


@needs_io_uring
def test_a_write_that_fails_is_counted_by_its_errno(pipe: tuple[int, int]) -> None:
    requests, _words = writers(pipe[0], 3)  # the end that cannot be written
    finished: list[Request] = []
    policy = {"user": "async", "kernel": "io_wq"}
    evidence = cells.drive(policy, 2, iter(requests), finished.append)
    assert evidence.failed == [9] * 12
    assert len(finished) == 3


@needs_io_uring
def test_the_ring_goes_round_and_leaves_no_descriptor() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    round_and_round = ring.Ring(4, 1)
    for number in range(20):
        round_and_round.push(ring.nothing(), number)
        round_and_round.enter(1)
        assert list(round_and_round.take()) == [(number, 0)]
    round_and_round.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.skipif(not HEADER.exists(), reason="linux-libc-dev is not installed")
def test_the_command_is_laid_out_as_the_kernel_s_header_says(tmp_path: Path) -> None:
    wanted = attributes.to_rtr(
        dest_qp_num=0x123456, rq_psn=0x654321, path_mtu=5, gid=bytes(range(16)), gid_index=3
    )
    wanted.sq_psn = 0xABCDEF
    wanted.timeout, wanted.retry_cnt, wanted.rnr_retry, wanted.port_num = 14, 7, 6, 1
    wanted.max_rd_atomic = 9
    wanted.qp_access_flags = 6
    source = tmp_path / "command.c"
    source.write_text(
        "#include <stdio.h>\n#include <rdma/ib_user_verbs.h>\n"
        "int main(void) {\n"
        "  struct { struct ib_uverbs_cmd_hdr header; struct ib_uverbs_modify_qp command; } all =\n"
        "  {\n"
        "    .header = { .command = IB_USER_VERBS_CMD_MODIFY_QP, .in_words = sizeof(all) / 4 },\n"
        "    .command = { .qp_handle = 77, .attr_mask = 0x1234, .dest_qp_num = 0x123456,\n"
        "      .rq_psn = 0x654321, .sq_psn = 0xabcdef, .qp_access_flags = 6, .qp_state = 2,\n"
        "      .path_mtu = 5, .max_rd_atomic = 9, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,\n"
        "      .port_num = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 6,\n"
        "      .dest = { .sgid_index = 3, .hop_limit = 64, .is_global = 1, .port_num = 1 } } };\n"
        "  for (int i = 0; i < 16; i++) all.command.dest.dgid[i] = i;\n"
        "  fwrite(&all, sizeof(all), 1, stdout);\n}\n"
    )
    program = tmp_path / "command"
    subprocess.run(["gcc", "-o", program, source], check=True)
    expected = subprocess.run([program], capture_output=True, check=True).stdout
    assert commands.modify(77, wanted, 0x1234) == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [({"op": "delay"}, "op: .*no sleep"), ({"call": "pyverbs"}, "call: .*command")],
)
def test_what_the_kernel_s_workers_cannot_do_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        catalogue.find("verbs").check({"kernel": "io_wq", **given})
