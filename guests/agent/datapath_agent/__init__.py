"""The datapath agent: runs measurements inside a guest, steered by JSON lines on its stdin.

Standard library only, Python 3.9 or newer. Emulated guests start Python slowly, so modules on
the way to `hello` import next to nothing, and everything else is imported when first needed.
"""
