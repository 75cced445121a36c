"""The command line: serve, list, --version."""

import sys

USAGE = """usage: datapath-agent serve      answer JSON lines on stdin with JSON lines on stdout
       datapath-agent list       workloads and their parameters
       datapath-agent --version
"""


def main() -> int:
    command = sys.argv[1:]
    if command == ["serve"]:
        from datapath_agent.serve import serve

        serve(stdin=0, stdout=1)
    elif command == ["list"]:
        from datapath_agent.registry import describe

        print(describe())
    elif command == ["--version"]:
        from datapath_agent.version import VERSION

        print(VERSION)
    elif command in (["--help"], ["-h"]):
        print(USAGE, end="")
    else:
        print(USAGE, end="", file=sys.stderr)
        return 2
    return 0
