"""kombu's Connection.manager, which is pyrabbit: every call of it, once. Run by its own Python."""

from __future__ import annotations

import sys

from kombu import Connection


def life(manager, connection) -> None:  # noqa: ANN001 - libraries without annotations
    # It reads tags as one text; they are a list in RabbitMQ since 3.9, and here.
    assert manager.get_whoami() == {"name": "guest", "tags": ["administrator"]}
    manager.is_admin = True
    assert manager.is_alive()
    assert manager.get_overview()["object_totals"]["connections"] == 1
    assert len(manager.get_nodes()) == 1
    assert [user["name"] for user in manager.get_users()] == ["guest"]

    manager.create_vhost("kv")
    assert manager.get_vhost("kv")["name"] == "kv"
    assert set(manager.get_vhost_names()) == {"/", "kv"}
    assert len(manager.get_all_vhosts()) == 2
    manager.create_user("ku", "secret", "management")
    manager.set_vhost_permissions("kv", "ku", ".*", "^r", "^w")
    assert manager.get_permission("kv", "ku")["read"] == "^r"
    assert len(manager.get_vhost_permissions("kv")) == 2
    assert len(manager.get_user_permissions("ku")) == 1
    assert len(manager.get_permissions()) == 3

    manager.create_exchange("kv", "kx", "topic", durable=True)
    assert manager.get_exchange("kv", "kx")["type"] == "topic"
    assert "kx" in [one["name"] for one in manager.get_exchanges("kv")]
    manager.create_queue("kv", "kq", durable=True)
    assert manager.get_queue("kv", "kq")["durable"] is True
    assert [one["name"] for one in manager.get_queues("kv")] == ["kq"]
    manager.create_binding("kv", "kx", "kq", "a.b")
    assert len(manager.get_queue_bindings("kv", "kq")) == 2
    assert len(manager.get_bindings()) >= 2

    assert manager.publish("kv", "kx", "a.b", "hello") is True
    assert manager.publish("kv", "kx", "b", "hello") is False
    assert manager.get_queue_depth("kv", "kq") == 1
    manager.get_queue_depths("kv", ["kq"])  # prints what it finds
    assert manager.get_messages("kv", "kq", requeue=True)[0]["payload"] == "hello"
    assert manager.get_messages("kv", "kq")[0]["redelivered"] is True
    manager.purge_queue("kv", "kq")

    [mine] = manager.get_connections()
    assert manager.get_connection(mine["name"])["user"] == "guest"
    [channel] = manager.get_channels()
    assert manager.get_channel(channel["name"])["number"] == 1

    manager.delete_binding("kv", "kx", "kq", "a.b")
    manager.delete_queue("kv", "kq")
    manager.delete_exchange("kv", "kx")
    manager.delete_permission("kv", "ku")
    manager.delete_user("ku")
    manager.delete_vhost("kv")
    manager.delete_connection(mine["name"])
    try:
        connection.drain_events(timeout=10)
    except connection.connection_errors:
        sys.stdout.write("done\n")


def main() -> None:
    amqp, http = sys.argv[1:]
    options = {"manager_hostname": "127.0.0.1", "manager_port": int(http)}
    with Connection(f"amqp://guest:guest@127.0.0.1:{amqp}//", transport_options=options) as one:
        one.default_channel  # noqa: B018 - opens it
        life(one.manager, one)


main()
