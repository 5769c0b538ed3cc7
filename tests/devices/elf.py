"""Sections of ELF files, as compilers of kernels write them. Serves tests that read machine code."""

import struct
from collections.abc import Iterator


def sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each section of a 64-bit little-endian file (System V ABI, 'Object Files')."""
    (table,), (size, count, names) = struct.unpack_from("<Q", elf, 0x28), struct.unpack_from("<HHH", elf, 0x3A)
    # fields of a section header: sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size
    heads = [struct.unpack_from("<IIQQQQ", elf, table + at * size) for at in range(count)]
    names_start = heads[names][4]
    for name, _, _, _, begin, length in heads:
        yield elf[names_start + name : elf.index(b"\0", names_start + name)].decode(), elf[begin : begin + length]
