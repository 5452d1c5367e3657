"""Object stores, and the transfer of segments to them and back. Calls block: a service makes them in worker threads."""
