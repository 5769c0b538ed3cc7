"""Devices that run kernels: the contract of a backend, the backends, and facts of the machine."""
