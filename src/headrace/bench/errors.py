"""The one error of the bench: a measurement that could not be made."""

from __future__ import annotations

from headrace.errors import BrokerError


class MeasureError(BrokerError):
    """The figure does not exist; the case is reported as failed with this text."""
