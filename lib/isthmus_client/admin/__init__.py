"""Administration of a cluster. One module per subject, each with plain functions over a `Client`."""
