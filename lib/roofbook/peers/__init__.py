"""Peers: the libraries and C programs that a user would pick instead of the book's kernels. Each is optional."""
