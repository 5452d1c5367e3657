"""One file per API key. `table` lists them; ApiVersions responds from that table."""
