"""The agent's version: the build writes the content hash of all sources here."""

VERSION = "unbuilt"
