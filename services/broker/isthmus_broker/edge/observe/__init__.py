"""What a node tells about itself: metrics and health over HTTP, samples of lag and load into topics of its cluster."""
