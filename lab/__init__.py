"""A QEMU/KVM integration lab for people who change datapaths."""

__version__ = "0.1.0"
