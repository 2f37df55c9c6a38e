"""What blocking and asyncio producers are made of: settings, state, numbers."""

from __future__ import annotations

from headrace.rocketmq.config import ProducerConfig
from headrace.rocketmq.errors import ConfigurationError
from headrace.rocketmq.metrics import Health, ProducerMetrics, State
from headrace.rocketmq.net.client_instance import client_id
from headrace.rocketmq.net.lifecycle import Lifecycle
from headrace.rocketmq.producing.producer_core import ProducerCore


class BaseProducer:
    """A producer without its way to wait."""

    def __init__(self, config: ProducerConfig) -> None:
        if not isinstance(config, ProducerConfig):
            raise ConfigurationError(f"{config!r} is no ProducerConfig")
        self.config = config
        self.client_id = client_id(config.instance_name)
        self.metrics = ProducerMetrics()
        self._life = Lifecycle(f"{type(self).__name__} of group {config.producer_group!r}")
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
