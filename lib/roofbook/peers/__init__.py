"""What a user would pick instead of the book's kernels: each peer is optional and says why when it cannot run."""
