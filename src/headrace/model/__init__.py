"""Pure rules of the broker: routing, arguments, policies, permissions, dead letters.

Nothing here does I/O, reads a clock or knows a wire format; `now` and random bytes are passed in.
"""
