"""Logs on standard error: a line of text, or of JSON (`ISTHMUS_LOG_FORMAT=json`)."""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Final

LEVEL_VARIABLE: Final = "ISTHMUS_LOG_LEVEL"
FORMAT_VARIABLE: Final = "ISTHMUS_LOG_FORMAT"
_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One JSON object per line; a traceback is one string."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def set_up_logs(service: str) -> None:
    """Configure logging for the process from the environment; raises ValueError for an unknown level or format."""
    form = os.environ.get(FORMAT_VARIABLE, "text")
    if form not in ("text", "json"):
        raise ValueError(f"{FORMAT_VARIABLE} is {form!r}; it must be text or json")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(service) if form == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=os.environ.get(LEVEL_VARIABLE, "INFO"), handlers=[handler])
