"""What the local controllers decide: pure functions from what is there to what is to be done.

No I/O, no clock, no randomness; one module per kind, carried out by the module of the same name one folder up.
"""
