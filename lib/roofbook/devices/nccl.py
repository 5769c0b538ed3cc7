"""NCCL by CuPy: messages between the GPUs of one process, in a queue of each. Present only where CuPy finds it."""

import os
from collections.abc import Sequence
from typing import Any

from . import contract
from .contract import DriverFailed, Message, Unsupported


class Nccl(contract.Messages):
    """A communicator for each device of a set (NCCL, Point To Point Communication Functions).

    Between two devices messages arrive in the order in which they were given.
    """

    def __init__(self, indices: Sequence[int], queues: Sequence[Any]) -> None:
        """indices: the devices by their numbers in CUDA, in the order of the set. Raises Unsupported without NCCL."""
        try:
            from cupy.cuda import nccl
        except ImportError as error:
            raise Unsupported("CuPy finds no NCCL") from error
        if not nccl.available:
            raise Unsupported("CuPy finds no NCCL")
        os.environ["NCCL_NVLS_ENABLE"] = "0"  # no NVLink multicast: no message needs it, and some hosts cannot have it
        self.nccl, self.queues = nccl, queues
        try:
            self.communicators = nccl.NcclCommunicator.initAll(list(indices))
        except nccl.NcclError as error:
            raise DriverFailed(f"NCCL makes no communicators: {error}") from error

    def exchange(self, messages: Sequence[Message]) -> None:
        nccl = self.nccl
        nccl.groupStart()
        for message in messages:
            source: Any = message.source
            target: Any = message.target
            nbytes = target.nbytes
            self._at(message.sender).send(
                source.memory.data.ptr + message.offset,
                nbytes,
                nccl.NCCL_UINT8,
                message.receiver,
                self._stream(message.sender),
            )
            self._at(message.receiver).recv(
                target.memory.data.ptr, nbytes, nccl.NCCL_UINT8, message.sender, self._stream(message.receiver)
            )
        nccl.groupEnd()

    def _at(self, index: int) -> Any:
        """Make a device of the set the current one, and return its communicator."""
        self.queues[index].use()
        return self.communicators[index]

    def _stream(self, index: int) -> int:
        return int(self.queues[index].stream.ptr)
