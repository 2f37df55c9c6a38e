"""Interfaces of the storage: all of `store` that the broker sees, together with `store.topics`."""
