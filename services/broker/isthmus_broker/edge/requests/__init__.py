"""One file per API key. `registry` finds them; ApiVersions is answered from what it found."""
