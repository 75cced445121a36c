"""Kept until every caller has moved to lab.workload."""

from lab.workload import run_workload as run_mechanism

__all__ = ["run_mechanism"]
