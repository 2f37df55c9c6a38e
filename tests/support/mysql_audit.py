"""What the database itself knows of acknowledgements: a trigger notes every range that is ended.

Ledgers of consumers cannot tell what became of a commit whose answer was lost. The notes are
written in the transaction of the commit, so they are there if, and only if, it was done.
"""

from __future__ import annotations

from collections import Counter

import pymysql

from headrace.model.topics.message_priority import BY_URGENCY

Cursor = pymysql.cursors.Cursor


def watch(cursor: Cursor, topic: str) -> None:
    """From now on every range of the topic that somebody ends is noted, with its row left empty or
    used for the next range; not those that were claimed ahead and never handed out."""
    cursor.execute(
        "CREATE TABLE ended (id BIGINT AUTO_INCREMENT PRIMARY KEY, group_id VARCHAR(255) NOT NULL, "
        "priority VARCHAR(6) NOT NULL, start_id BIGINT NOT NULL, end_id BIGINT NOT NULL, "
        "token VARCHAR(255) NOT NULL)"
    )
    cursor.execute(
        f"CREATE TRIGGER note_ended AFTER UPDATE ON msg_l_{topic} FOR EACH ROW BEGIN "
        "IF OLD.end_id > 0 AND OLD.attempts > 0 AND (NEW.end_id = 0 OR "
        "NEW.start_id <> OLD.start_id OR NEW.priority <> OLD.priority) THEN "
        "INSERT INTO ended (group_id,priority,start_id,end_id,token) VALUES "
        "(OLD.group_id,OLD.priority,OLD.start_id,OLD.end_id,OLD.token); END IF; END"
    )


def acknowledged(cursor: Cursor, topic: str, group: str) -> Counter[str]:
    """How often each message of the topic was acknowledged by the group."""
    found: Counter[str] = Counter()
    for priority in BY_URGENCY:
        cursor.execute(
            "SELECT start_id,end_id FROM ended WHERE priority=%s AND group_id=%s",
            (priority.label, group),
        )
        ends = Counter(
            number for start, end in cursor.fetchall() for number in range(start, end + 1)
        )
        cursor.execute(f"SELECT id,body FROM msg_p_{topic}_{priority.label} WHERE flags=0")
        for number, body in cursor.fetchall():
            found[body.decode()] += ends[number]
    return found
