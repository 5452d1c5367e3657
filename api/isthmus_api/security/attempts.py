"""Failed attempts by address."""

from collections import OrderedDict, deque

from isthmus_model.clocks import WallMs

from isthmus_api.limits import FAILING_ADDRESSES_MAX, FAILURES_MAX, FAILURES_SECONDS


class Attempts:
    """After `FAILURES_MAX` failures within `FAILURES_SECONDS` an address must wait until the oldest of them expires."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, deque[int]] = OrderedDict()

    def wait_seconds(self, address: str, now_ms: WallMs) -> int:
        """Seconds this address must wait; 0 when it may try."""
        failures = self._failures.get(address)
        if failures is None:
            return 0
        window = int(FAILURES_SECONDS * 1000)
        while failures and failures[0] <= now_ms - window:
            failures.popleft()
        if len(failures) < FAILURES_MAX:
            return 0
        return -(-(failures[0] + window - now_ms) // 1000)

    def failed(self, address: str, now_ms: WallMs) -> None:
        """Record a failure."""
        self._failures.setdefault(address, deque(maxlen=FAILURES_MAX)).append(now_ms)
        self._failures.move_to_end(address)
        if len(self._failures) > FAILING_ADDRESSES_MAX:
            self._failures.popitem(last=False)

    def succeeded(self, address: str) -> None:
        """Clear the failures of an address."""
        self._failures.pop(address, None)
