"""What runs kernels: the contract of a backend, the backends, and what the machine is."""
