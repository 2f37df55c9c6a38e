"""The client for asyncio: the same calls as `headrace.client`, awaited.

async with connect(port=9090) as connection:
    channel = await connection.create_channel()
"""

from headrace.client.aio.channel import Channel
from headrace.client.aio.connection import Connection, connect, connect_url
from headrace.client.aio.deliveries import Delivery, DeliveryStream

__all__ = ["Channel", "Connection", "Delivery", "DeliveryStream", "connect", "connect_url"]
