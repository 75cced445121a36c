"""Requests to a disk in batches, through Linux's native asynchronous I/O."""
