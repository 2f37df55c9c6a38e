"""The methods of AMQP 0-9-1, both directions.

Each method is declared once, as a class; the kinds of its fields, in order, are the layout that
both the decoder and the encoder follow. (Annotations are evaluated here on purpose: the layout
is read from them.)
"""

from dataclasses import field

from headrace.wire.amqp.method_codec import (
    U8,
    U16,
    U32,
    U64,
    Bit,
    Key,
    LongString,
    Method,
    Reason,
    Short,
    Table,
)

# -- connection -------------------------------------------------------------------------------


class ConnectionStart(Method, ids=(10, 10)):
    version_major: U8 = 0
    version_minor: U8 = 9
    server_properties: Table = field(default_factory=dict)
    mechanisms: LongString = b""
    locales: LongString = b""


class ConnectionStartOk(Method, ids=(10, 11)):
    client_properties: Table = field(default_factory=dict)
    mechanism: Short = ""
    response: LongString = field(default=b"", repr=False)  # has the password
    locale: Short = ""


class ConnectionSecure(Method, ids=(10, 20)):
    challenge: LongString = b""


class ConnectionSecureOk(Method, ids=(10, 21)):
    response: LongString = field(default=b"", repr=False)  # has the password


class ConnectionTune(Method, ids=(10, 30)):
    channel_max: U16 = 0
    frame_max: U32 = 0
    heartbeat: U16 = 0


class ConnectionTuneOk(Method, ids=(10, 31)):
    channel_max: U16 = 0
    frame_max: U32 = 0
    heartbeat: U16 = 0


class ConnectionOpen(Method, ids=(10, 40)):
    virtual_host: Short = ""
    reserved_1: Short = ""
    insist: Bit = False


class ConnectionOpenOk(Method, ids=(10, 41)):
    reserved_1: Short = ""


class ConnectionClose(Method, ids=(10, 50)):
    """The ids name the method that caused the close; 0 and 0 when there is none."""

    reply_code: U16 = 0
    reply_text: Reason = ""
    class_id: U16 = 0  # type: ignore[misc]
    method_id: U16 = 0  # type: ignore[misc]


class ConnectionCloseOk(Method, ids=(10, 51)): ...


class ConnectionBlocked(Method, ids=(10, 60)):
    reason: Reason = ""


class ConnectionUnblocked(Method, ids=(10, 61)): ...


class ConnectionUpdateSecret(Method, ids=(10, 70)):
    new_secret: LongString = field(default=b"", repr=False)
    reason: Reason = ""


class ConnectionUpdateSecretOk(Method, ids=(10, 71)): ...


# -- channel ----------------------------------------------------------------------------------


class ChannelOpen(Method, ids=(20, 10)):
    reserved_1: Short = ""


class ChannelOpenOk(Method, ids=(20, 11)):
    reserved_1: LongString = b""


class ChannelFlow(Method, ids=(20, 20)):
    active: Bit = False


class ChannelFlowOk(Method, ids=(20, 21)):
    active: Bit = False


class ChannelClose(Method, ids=(20, 40)):
    """The ids name the method that caused the close; 0 and 0 when there is none."""

    reply_code: U16 = 0
    reply_text: Reason = ""
    class_id: U16 = 0  # type: ignore[misc]
    method_id: U16 = 0  # type: ignore[misc]


class ChannelCloseOk(Method, ids=(20, 41)): ...


# -- access -----------------------------------------------------------------------------------


class AccessRequest(Method, ids=(30, 10)):
    realm: Short = ""
    exclusive: Bit = False
    passive: Bit = False
    active: Bit = False
    write: Bit = False
    read: Bit = False


class AccessRequestOk(Method, ids=(30, 11)):
    ticket: U16 = 0


# -- exchange ---------------------------------------------------------------------------------


class ExchangeDeclare(Method, ids=(40, 10)):
    ticket: U16 = 0
    exchange: Short = ""
    type: Short = ""
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


class ExchangeDeclareOk(Method, ids=(40, 11)): ...


class ExchangeDelete(Method, ids=(40, 20)):
    ticket: U16 = 0
    exchange: Short = ""
    if_unused: Bit = False
    nowait: Bit = False


class ExchangeDeleteOk(Method, ids=(40, 21)): ...


class ExchangeBind(Method, ids=(40, 30)):
    ticket: U16 = 0
    destination: Short = ""
    source: Short = ""
    routing_key: Short = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


class ExchangeBindOk(Method, ids=(40, 31)): ...


class ExchangeUnbind(Method, ids=(40, 40)):
    ticket: U16 = 0
    destination: Short = ""
    source: Short = ""
    routing_key: Short = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


class ExchangeUnbindOk(Method, ids=(40, 51)): ...


# -- queue ------------------------------------------------------------------------------------


class QueueDeclare(Method, ids=(50, 10)):
    ticket: U16 = 0
    queue: Short = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


class QueueDeclareOk(Method, ids=(50, 11)):
    queue: Short = ""
    message_count: U32 = 0
    consumer_count: U32 = 0


class QueueBind(Method, ids=(50, 20)):
    ticket: U16 = 0
    queue: Short = ""
    exchange: Short = ""
    routing_key: Short = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


class QueueBindOk(Method, ids=(50, 21)): ...


class QueuePurge(Method, ids=(50, 30)):
    ticket: U16 = 0
    queue: Short = ""
    nowait: Bit = False


class QueuePurgeOk(Method, ids=(50, 31)):
    message_count: U32 = 0


class QueueDelete(Method, ids=(50, 40)):
    ticket: U16 = 0
    queue: Short = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


class QueueDeleteOk(Method, ids=(50, 41)):
    message_count: U32 = 0


class QueueUnbind(Method, ids=(50, 50)):
    ticket: U16 = 0
    queue: Short = ""
    exchange: Short = ""
    routing_key: Short = ""
    arguments: Table = field(default_factory=dict)


class QueueUnbindOk(Method, ids=(50, 51)): ...


# -- basic ------------------------------------------------------------------------------------


class BasicQos(Method, ids=(60, 10)):
    prefetch_size: U32 = 0
    prefetch_count: U16 = 0
    global_: Bit = False


class BasicQosOk(Method, ids=(60, 11)): ...


class BasicConsume(Method, ids=(60, 20)):
    ticket: U16 = 0
    queue: Short = ""
    consumer_tag: Short = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


class BasicConsumeOk(Method, ids=(60, 21)):
    consumer_tag: Short = ""


class BasicCancel(Method, ids=(60, 30)):
    consumer_tag: Short = ""
    nowait: Bit = False


class BasicCancelOk(Method, ids=(60, 31)):
    consumer_tag: Short = ""


class BasicPublish(Method, ids=(60, 40)):
    ticket: U16 = 0
    exchange: Key = ""
    routing_key: Key = ""
    mandatory: Bit = False
    immediate: Bit = False


class BasicReturn(Method, ids=(60, 50)):
    reply_code: U16 = 0
    reply_text: Reason = ""
    exchange: Key = ""
    routing_key: Key = ""


class BasicDeliver(Method, ids=(60, 60)):
    consumer_tag: Key = ""
    delivery_tag: U64 = 0
    redelivered: Bit = False
    exchange: Key = ""
    routing_key: Key = ""


class BasicGet(Method, ids=(60, 70)):
    ticket: U16 = 0
    queue: Short = ""
    no_ack: Bit = False


class BasicGetOk(Method, ids=(60, 71)):
    delivery_tag: U64 = 0
    redelivered: Bit = False
    exchange: Key = ""
    routing_key: Key = ""
    message_count: U32 = 0


class BasicGetEmpty(Method, ids=(60, 72)):
    reserved_1: Short = ""


class BasicAck(Method, ids=(60, 80)):
    delivery_tag: U64 = 0
    multiple: Bit = False


class BasicReject(Method, ids=(60, 90)):
    delivery_tag: U64 = 0
    requeue: Bit = False


class BasicRecoverAsync(Method, ids=(60, 100)):
    requeue: Bit = False


class BasicRecover(Method, ids=(60, 110)):
    requeue: Bit = False


class BasicRecoverOk(Method, ids=(60, 111)): ...


class BasicNack(Method, ids=(60, 120)):
    delivery_tag: U64 = 0
    multiple: Bit = False
    requeue: Bit = False


# -- confirm and tx ---------------------------------------------------------------------------


class ConfirmSelect(Method, ids=(85, 10)):
    nowait: Bit = False


class ConfirmSelectOk(Method, ids=(85, 11)): ...


class TxSelect(Method, ids=(90, 10)): ...


class TxSelectOk(Method, ids=(90, 11)): ...


class TxCommit(Method, ids=(90, 20)): ...


class TxCommitOk(Method, ids=(90, 21)): ...


class TxRollback(Method, ids=(90, 30)): ...


class TxRollbackOk(Method, ids=(90, 31)): ...
