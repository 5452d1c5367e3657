"""What every service's process shares: its metrics and health on HTTP, its logs, and the samples it writes about lag and load."""
