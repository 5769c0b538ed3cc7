"""What lies in an ELF file, as compilers of kernels write them: for tests and tools that read machine code."""

import struct
from collections.abc import Iterator


def sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """The sections of a 64-bit little-endian file: names and contents (System V ABI, 'Object Files')."""
    (table,), (size, count, names) = struct.unpack_from("<Q", elf, 0x28), struct.unpack_from("<HHH", elf, 0x3A)
    # Of each header: where its name begins, its type, flags and address, then where its content lies.
    heads = [struct.unpack_from("<IIQQQQ", elf, table + at * size) for at in range(count)]
    known = heads[names][4]
    for name, _, _, _, begin, length in heads:
        yield elf[known + name : elf.index(b"\0", known + name)].decode(), elf[begin : begin + length]
