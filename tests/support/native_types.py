"""Types of the fixtures, for the signatures of tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.raw_native import Native

Connect = Callable[..., Native]
Namer = Callable[[], str]
StartBroker = Callable[..., Any]
