"""A simulated disk below the product's `FileSystem`: it can lose power, tear writes, fill up and fail."""
