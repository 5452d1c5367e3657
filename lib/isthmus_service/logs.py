"""Logs on standard error: a line of text for people, or of JSON for machines (`ISTHMUS_LOG_FORMAT=json`)."""

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
    """One object a line; a traceback is one string of it."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "service": self._service,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


def set_up_logs(service: str) -> None:
    """For the whole process, once, as the environment says; raises ValueError for a level or a format that does not exist."""
    form = os.environ.get(FORMAT_VARIABLE, "text")
    if form not in ("text", "json"):
        raise ValueError(f"{FORMAT_VARIABLE} is {form!r}; it may be text or json")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(service) if form == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=os.environ.get(LEVEL_VARIABLE, "INFO"), handlers=[handler])
