"""What blocking and asyncio producers are made of: settings, state, numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from headrace.rocketmq.config import ProducerConfig
from headrace.rocketmq.errors import ConfigurationError
from headrace.rocketmq.metrics import Health, ProducerMetrics, State
from headrace.rocketmq.net.client_instance import client_id
from headrace.rocketmq.net.lifecycle import Client, Lifecycle
from headrace.rocketmq.producing.producer_core import ProducerCore
from headrace.rocketmq.producing.trace import MessageTrace
from headrace.wire.remoting.names import in_namespace


class BaseProducer(Client):
    """A producer without its way to wait."""

    def __init__(self, config: ProducerConfig) -> None:
        if not isinstance(config, ProducerConfig):
            raise ConfigurationError(f"{config!r} is no ProducerConfig")
        self.config = config
        self.client_id = client_id(config.instance_name)
        self.metrics = ProducerMetrics()
        group = config.producer_group
        self._life = Lifecycle(f"{type(self).__name__} of group {group!r}", f"rocketmq-{group}")
        self._core: ProducerCore | None = None

    @property
    def running(self) -> bool:
        return self._life.state is State.RUNNING

    def health(self) -> Health:
        if self._core is None or not self.running:
            state = self._life.state
            return Health(state, ok=False, problems=(f"the producer is {state.value}",))
        problems = self._core.instance.problems
        texts = problems.texts()
        return Health(State.RUNNING, not texts, texts, last_heartbeat=problems.last_heartbeat)

    def _running(self) -> ProducerCore:
        self._life.check_running()
        assert self._core is not None
        return self._core

    async def _open(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """NameServerError when no name server answers."""
        group = in_namespace(self.config.namespace, self.config.producer_group)
        config = replace(self.config, producer_group=group)
        self._core = core = ProducerCore(loop, config, self.client_id, self.metrics)
        await core.start()
        if config.enable_msg_trace:
            core.trace = MessageTrace(loop, config, group, "PRODUCE")
            await core.trace.start()
        return core.instance.remoting.abandon

    async def _close(self) -> None:
        assert self._core is not None
        await self._core.stop()

    async def _abort(self) -> None:
        if self._core is not None:
            if self._core.trace is not None:
                await self._core.trace.stop()
            await self._core.instance.close()
            self._core = None
