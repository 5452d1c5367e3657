"""Parts of the fetch and append loops."""
