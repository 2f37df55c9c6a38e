"""A broker's storage in a SQL database, so that another machine can take over.

The files of a data directory are rows; the local directory is only a cache. Whatever the broker
syncs is committed in a transaction that only the shard's owner can make (model/shard_ownership).
"""
