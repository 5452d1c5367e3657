"""What /proc says of a process: CPU time and memory."""

import os
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the command's name in brackets.
_UTIME: Final = 11
_STIME: Final = 12


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS


def resident_mb(pid: int) -> float:
    """Resident memory now."""
    return _kilobytes(pid, "status", "VmRSS") / 1000


def peak_resident_mb(pid: int) -> float:
    """The most that was ever resident."""
    return _kilobytes(pid, "status", "VmHWM") / 1000


def proportional_mb(pid: int) -> float:
    """Resident memory now, shared pages divided by those who share them."""
    return _kilobytes(pid, "smaps_rollup", "Pss") / 1000


def _kilobytes(pid: int, file: str, field: str) -> int:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{pid}/{file} has no {field}")
