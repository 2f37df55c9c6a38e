"""The tables. Names are made from checked topic names only, and always stand in backticks.

Tables and columns keep their original names: `msg_p_<topic>_<priority>` and `msg_c_<topic>`.
"""

from __future__ import annotations

from typing import Final

from headrace.model.topics.message_priority import BY_URGENCY, Priority
from headrace.model.topics.names import check_topic

VERSION: Final = 2
NOW: Final = "CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)"
_WORD: Final = "CHARACTER SET ascii COLLATE ascii_bin"
# A comment for other servers. Without it a restart of TiDB jumps 30,000 ids.
_TIDB: Final = "/*T![auto_id_cache] AUTO_ID_CACHE=1 */"
_LANE: Final = "ENUM('low','middle','high')"

LEASES: Final = f"""CREATE TABLE IF NOT EXISTS `msg_lease` (
  name VARCHAR(100) {_WORD} NOT NULL PRIMARY KEY, owner VARCHAR(255) {_WORD} NULL,
  epoch BIGINT NOT NULL DEFAULT 0, lease_until_ms BIGINT NOT NULL DEFAULT 0) ENGINE=InnoDB"""
COUNTERS: Final = f"""CREATE TABLE IF NOT EXISTS `msg_counter` (
  topic VARCHAR(40) {_WORD} NOT NULL, priority {_LANE} NOT NULL,
  last_id BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (topic, priority)) ENGINE=InnoDB"""
SHARED: Final = (
    "CREATE TABLE IF NOT EXISTS `msg_schema` (version INT NOT NULL PRIMARY KEY) ENGINE=InnoDB",
    f"""CREATE TABLE IF NOT EXISTS `msg_topic` (
  topic VARCHAR(40) {_WORD} NOT NULL PRIMARY KEY,
  uuid CHAR(36) {_WORD} NOT NULL,
  state ENUM('making','ready','deleting') NOT NULL DEFAULT 'making',
  queues SMALLINT NOT NULL DEFAULT 1,
  append_mode ENUM('auto','counter') NOT NULL DEFAULT 'auto',
  retention_ms BIGINT NULL, retention_bytes BIGINT NULL, keep_unread TINYINT NOT NULL DEFAULT 0,
  partition_rows BIGINT NULL,
  created_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)) ENGINE=InnoDB""",
    # Apart from the counter: on a cluster, rows that readers write would abort appends.
    f"""CREATE TABLE IF NOT EXISTS `msg_readable` (
  topic VARCHAR(40) {_WORD} NOT NULL, priority {_LANE} NOT NULL,
  stable_id BIGINT NOT NULL DEFAULT 0, low_id BIGINT NOT NULL DEFAULT 1,
  PRIMARY KEY (topic, priority)) ENGINE=InnoDB""",
    COUNTERS,
    f"""CREATE TABLE IF NOT EXISTS `msg_node` (
  node_id VARCHAR(255) {_WORD} NOT NULL PRIMARY KEY, address VARCHAR(255) NULL,
  epoch BIGINT NOT NULL, heartbeat_ms BIGINT NOT NULL) ENGINE=InnoDB""",
)


# -- names -----------------------------------------------------------------------------------


def messages(topic: str, priority: Priority) -> str:
    return f"`msg_p_{check_topic(topic)}_{priority.label}`"


def cursors(topic: str) -> str:
    return f"`msg_c_{check_topic(topic)}`"


def claims(topic: str) -> str:
    return f"`msg_l_{check_topic(topic)}`"


def retries(topic: str) -> str:
    return f"`msg_r_{check_topic(topic)}`"


def tables(topic: str) -> list[str]:
    priorities = [messages(topic, priority) for priority in BY_URGENCY]
    return [*priorities, cursors(topic), claims(topic), retries(topic)]


# -- statements ------------------------------------------------------------------------------


def topic_statements(
    topic: str, *, has_queues: bool, first_id: int, partition_rows: int | None
) -> list[str]:
    priorities = [
        _messages_table(topic, priority, has_queues, first_id, partition_rows)
        for priority in BY_URGENCY
    ]
    return [*priorities, cursors_table(topic), claims_table(topic), retries_table(topic)]


def _messages_table(
    topic: str, priority: Priority, has_queues: bool, first_id: int, partition_rows: int | None
) -> str:
    by_queue = ", KEY ix_queue (queue_id, id)" if has_queues else ""
    parts = f"\n{partitions(first_id, partition_rows)}" if partition_rows else ""
    return f"""CREATE TABLE IF NOT EXISTS {messages(topic, priority)} (
  id BIGINT NOT NULL AUTO_INCREMENT,
  body MEDIUMBLOB NOT NULL,
  source_ip VARBINARY(16) NULL,
  token VARCHAR(255) {_WORD} NOT NULL,
  ref_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  queue_id SMALLINT NOT NULL DEFAULT 0,
  flags TINYINT UNSIGNED NOT NULL DEFAULT 0,
  props MEDIUMBLOB NULL,
  created_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (id){by_queue}) ENGINE=InnoDB AUTO_INCREMENT={first_id} {_TIDB}{parts}"""


def partitions(first_id: int, rows: int) -> str:
    """Two ready ahead of the one in use, and one for whatever lies behind them."""
    bounds = (first_id + rows * step for step in (1, 2, 3))
    parts = ", ".join(f"PARTITION p{bound} VALUES LESS THAN ({bound})" for bound in bounds)
    return f"PARTITION BY RANGE (id) ({parts}, PARTITION pmax VALUES LESS THAN MAXVALUE)"


def cursors_table(topic: str) -> str:
    return f"""CREATE TABLE IF NOT EXISTS {cursors(topic)} (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  group_id VARCHAR(255) {_WORD} NULL,
  `offset` BIGINT NOT NULL DEFAULT 0,
  token VARCHAR(255) {_WORD} NOT NULL DEFAULT '',
  priority {_LANE} NOT NULL,
{CURSOR_EXTRAS}) ENGINE=InnoDB"""


# What the original tables has not; adoption adds the same.
CURSOR_COLUMNS: Final = (
    "queue_id SMALLINT NOT NULL DEFAULT 0",
    "claimed BIGINT NOT NULL DEFAULT 0",
    f"owner VARCHAR(255) {_WORD} NULL",
    "epoch BIGINT NOT NULL DEFAULT 0",
    "lease_until_ms BIGINT NOT NULL DEFAULT 0",
    "updated_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)",
    # NULLs never collide in a unique key: a consumer on its own would get a row per commit.
    f"group_key VARCHAR(255) {_WORD} GENERATED ALWAYS AS (IFNULL(group_id,'')) STORED",
)
CURSOR_KEY: Final = "UNIQUE KEY uq_cursor (group_key, token, queue_id, priority)"
CURSOR_EXTRAS: Final = ",\n".join(f"  {one}" for one in (*CURSOR_COLUMNS, CURSOR_KEY))


def claims_table(topic: str) -> str:
    # Rows are used again and again, see ranges.py; so nothing that changes is indexed.
    return f"""CREATE TABLE IF NOT EXISTS {claims(topic)} (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  group_id VARCHAR(255) {_WORD} NOT NULL, priority {_LANE} NOT NULL,
  start_id BIGINT NOT NULL, end_id BIGINT NOT NULL,
  token VARCHAR(255) {_WORD} NOT NULL, epoch BIGINT NOT NULL, attempts INT NOT NULL DEFAULT 1,
  lease_until_ms BIGINT NOT NULL, nacked MEDIUMTEXT {_WORD} NULL,
  KEY ix_group (group_id)) ENGINE=InnoDB"""


def retries_table(topic: str) -> str:
    return f"""CREATE TABLE IF NOT EXISTS {retries(topic)} (
  group_id VARCHAR(255) {_WORD} NOT NULL, priority {_LANE} NOT NULL, msg_id BIGINT NOT NULL,
  attempts INT NOT NULL DEFAULT 1, due_ms BIGINT NOT NULL,
  state ENUM('retry','dead') NOT NULL DEFAULT 'retry',
  reason VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  PRIMARY KEY (group_id, priority, msg_id), KEY ix_due (group_id, state, due_ms)) ENGINE=InnoDB"""
