"""The methods of AMQP 0-9-1, both directions.

Each method is declared once, as a class; the kinds of its fields, in order, are the layout that
both the decoder and the encoder follow. (Annotations are evaluated here on purpose: the layout
is read from them.)
"""

from dataclasses import field

from headrace.wire.amqp.method_codec import Method, amqp_method
from headrace.wire.amqp.method_fields import (
    U8,
    U16,
    U32,
    U64,
    Bit,
    Key,
    LongString,
    Reason,
    Short,
    Table,
)

# -- connection -------------------------------------------------------------------------------


@amqp_method(10, 10)
class ConnectionStart(Method):
    version_major: U8 = 0
    version_minor: U8 = 9
    server_properties: Table = field(default_factory=dict)
    mechanisms: LongString = b""
    locales: LongString = b""


@amqp_method(10, 11)
class ConnectionStartOk(Method):
    client_properties: Table = field(default_factory=dict)
    mechanism: Short = ""
    response: LongString = field(default=b"", repr=False)  # has the password
    locale: Short = ""


@amqp_method(10, 20)
class ConnectionSecure(Method):
    challenge: LongString = b""


@amqp_method(10, 21)
class ConnectionSecureOk(Method):
    response: LongString = field(default=b"", repr=False)  # has the password


@amqp_method(10, 30)
class ConnectionTune(Method):
    channel_max: U16 = 0
    frame_max: U32 = 0
    heartbeat: U16 = 0


@amqp_method(10, 31)
class ConnectionTuneOk(Method):
    channel_max: U16 = 0
    frame_max: U32 = 0
    heartbeat: U16 = 0


@amqp_method(10, 40)
class ConnectionOpen(Method):
    virtual_host: Short = ""
    reserved_1: Short = ""
    insist: Bit = False


@amqp_method(10, 41)
class ConnectionOpenOk(Method):
    reserved_1: Short = ""


@amqp_method(10, 50)
class ConnectionClose(Method):
    """The ids name the method that caused the close; 0 and 0 when there is none."""

    reply_code: U16 = 0
    reply_text: Reason = ""
    class_id: U16 = 0  # type: ignore[misc]
    method_id: U16 = 0  # type: ignore[misc]


@amqp_method(10, 51)
class ConnectionCloseOk(Method):
    pass


@amqp_method(10, 60)
class ConnectionBlocked(Method):
    reason: Reason = ""


@amqp_method(10, 61)
class ConnectionUnblocked(Method):
    pass


@amqp_method(10, 70)
class ConnectionUpdateSecret(Method):
    new_secret: LongString = field(default=b"", repr=False)
    reason: Reason = ""


@amqp_method(10, 71)
class ConnectionUpdateSecretOk(Method):
    pass


# -- channel ----------------------------------------------------------------------------------


@amqp_method(20, 10)
class ChannelOpen(Method):
    reserved_1: Short = ""


@amqp_method(20, 11)
class ChannelOpenOk(Method):
    reserved_1: LongString = b""


@amqp_method(20, 20)
class ChannelFlow(Method):
    active: Bit = False


@amqp_method(20, 21)
class ChannelFlowOk(Method):
    active: Bit = False


@amqp_method(20, 40)
class ChannelClose(Method):
    """The ids name the method that caused the close; 0 and 0 when there is none."""

    reply_code: U16 = 0
    reply_text: Reason = ""
    class_id: U16 = 0  # type: ignore[misc]
    method_id: U16 = 0  # type: ignore[misc]


@amqp_method(20, 41)
class ChannelCloseOk(Method):
    pass


# -- access -----------------------------------------------------------------------------------


@amqp_method(30, 10)
class AccessRequest(Method):
    realm: Short = ""
    exclusive: Bit = False
    passive: Bit = False
    active: Bit = False
    write: Bit = False
    read: Bit = False


@amqp_method(30, 11)
class AccessRequestOk(Method):
    ticket: U16 = 0


# -- exchange ---------------------------------------------------------------------------------


@amqp_method(40, 10)
class ExchangeDeclare(Method):
    ticket: U16 = 0
    exchange: Short = ""
    type: Short = ""
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@amqp_method(40, 11)
class ExchangeDeclareOk(Method):
    pass


@amqp_method(40, 20)
class ExchangeDelete(Method):
    ticket: U16 = 0
    exchange: Short = ""
    if_unused: Bit = False
    nowait: Bit = False


@amqp_method(40, 21)
class ExchangeDeleteOk(Method):
    pass


@amqp_method(40, 30)
class ExchangeBind(Method):
    ticket: U16 = 0
    destination: Short = ""
    source: Short = ""
    routing_key: Short = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@amqp_method(40, 31)
class ExchangeBindOk(Method):
    pass


@amqp_method(40, 40)
class ExchangeUnbind(Method):
    ticket: U16 = 0
    destination: Short = ""
    source: Short = ""
    routing_key: Short = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@amqp_method(40, 51)
class ExchangeUnbindOk(Method):
    pass


# -- queue ------------------------------------------------------------------------------------


@amqp_method(50, 10)
class QueueDeclare(Method):
    ticket: U16 = 0
    queue: Short = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@amqp_method(50, 11)
class QueueDeclareOk(Method):
    queue: Short = ""
    message_count: U32 = 0
    consumer_count: U32 = 0


@amqp_method(50, 20)
class QueueBind(Method):
    ticket: U16 = 0
    queue: Short = ""
    exchange: Short = ""
    routing_key: Short = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@amqp_method(50, 21)
class QueueBindOk(Method):
    pass


@amqp_method(50, 30)
class QueuePurge(Method):
    ticket: U16 = 0
    queue: Short = ""
    nowait: Bit = False


@amqp_method(50, 31)
class QueuePurgeOk(Method):
    message_count: U32 = 0


@amqp_method(50, 40)
class QueueDelete(Method):
    ticket: U16 = 0
    queue: Short = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


@amqp_method(50, 41)
class QueueDeleteOk(Method):
    message_count: U32 = 0


@amqp_method(50, 50)
class QueueUnbind(Method):
    ticket: U16 = 0
    queue: Short = ""
    exchange: Short = ""
    routing_key: Short = ""
    arguments: Table = field(default_factory=dict)


@amqp_method(50, 51)
class QueueUnbindOk(Method):
    pass


# -- basic ------------------------------------------------------------------------------------


@amqp_method(60, 10)
class BasicQos(Method):
    prefetch_size: U32 = 0
    prefetch_count: U16 = 0
    global_: Bit = False


@amqp_method(60, 11)
class BasicQosOk(Method):
    pass


@amqp_method(60, 20)
class BasicConsume(Method):
    ticket: U16 = 0
    queue: Short = ""
    consumer_tag: Short = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@amqp_method(60, 21)
class BasicConsumeOk(Method):
    consumer_tag: Short = ""


@amqp_method(60, 30)
class BasicCancel(Method):
    consumer_tag: Short = ""
    nowait: Bit = False


@amqp_method(60, 31)
class BasicCancelOk(Method):
    consumer_tag: Short = ""


@amqp_method(60, 40)
class BasicPublish(Method):
    ticket: U16 = 0
    exchange: Key = ""
    routing_key: Key = ""
    mandatory: Bit = False
    immediate: Bit = False


@amqp_method(60, 50)
class BasicReturn(Method):
    reply_code: U16 = 0
    reply_text: Reason = ""
    exchange: Key = ""
    routing_key: Key = ""


@amqp_method(60, 60)
class BasicDeliver(Method):
    consumer_tag: Key = ""
    delivery_tag: U64 = 0
    redelivered: Bit = False
    exchange: Key = ""
    routing_key: Key = ""


@amqp_method(60, 70)
class BasicGet(Method):
    ticket: U16 = 0
    queue: Short = ""
    no_ack: Bit = False


@amqp_method(60, 71)
class BasicGetOk(Method):
    delivery_tag: U64 = 0
    redelivered: Bit = False
    exchange: Key = ""
    routing_key: Key = ""
    message_count: U32 = 0


@amqp_method(60, 72)
class BasicGetEmpty(Method):
    reserved_1: Short = ""


@amqp_method(60, 80)
class BasicAck(Method):
    delivery_tag: U64 = 0
    multiple: Bit = False


@amqp_method(60, 90)
class BasicReject(Method):
    delivery_tag: U64 = 0
    requeue: Bit = False


@amqp_method(60, 100)
class BasicRecoverAsync(Method):
    requeue: Bit = False


@amqp_method(60, 110)
class BasicRecover(Method):
    requeue: Bit = False


@amqp_method(60, 111)
class BasicRecoverOk(Method):
    pass


@amqp_method(60, 120)
class BasicNack(Method):
    delivery_tag: U64 = 0
    multiple: Bit = False
    requeue: Bit = False


# -- confirm and tx ---------------------------------------------------------------------------


@amqp_method(85, 10)
class ConfirmSelect(Method):
    nowait: Bit = False


@amqp_method(85, 11)
class ConfirmSelectOk(Method):
    pass


@amqp_method(90, 10)
class TxSelect(Method):
    pass


@amqp_method(90, 11)
class TxSelectOk(Method):
    pass


@amqp_method(90, 20)
class TxCommit(Method):
    pass


@amqp_method(90, 21)
class TxCommitOk(Method):
    pass


@amqp_method(90, 30)
class TxRollback(Method):
    pass


@amqp_method(90, 31)
class TxRollbackOk(Method):
    pass
