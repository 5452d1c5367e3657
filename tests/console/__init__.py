"""The console in the system's Chromium, against real processes."""
