"""Frames on a pipe: a header in JSON and bytes, each with its length before it. Serve a process that is not trusted."""

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

LENGTHS = struct.Struct("<IQ")
"""Bytes of the header, and of what follows it."""
LONGEST_HEADER = 1 << 16
LONGEST_PAYLOAD = 1 << 31


class BadFrame(Exception):
    """Bytes that are no frame."""


def packed(header: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    text = json.dumps(header).encode()
    return LENGTHS.pack(len(text), len(payload)) + text + payload


def lengths(start: bytes) -> tuple[int, int]:
    """Return the lengths that a frame begins with. Raises BadFrame for more than a frame may have."""
    header, payload = LENGTHS.unpack(start)
    if header > LONGEST_HEADER or payload > LONGEST_PAYLOAD:
        raise BadFrame(f"a frame of {header} and {payload} bytes")
    return header, payload


def header_of(text: bytes) -> dict[str, Any]:
    """Return the header in these bytes. Raises BadFrame where they are no JSON object."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFrame("a header that is no JSON") from error
    if not isinstance(header, dict):
        raise BadFrame("a header that is no object")
    return header


def write_frame(pipe: BinaryIO, header: Mapping[str, Any], payload: bytes = b"") -> None:
    """Write a frame, and wait until it is written."""
    pipe.write(packed(header, payload))
    pipe.flush()


def read_frame(pipe: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Wait for a frame of a process that is trusted; None at the end of the pipe."""
    start = pipe.read(LENGTHS.size)
    if len(start) < LENGTHS.size:
        return None
    header, payload = lengths(start)
    return header_of(pipe.read(header)), pipe.read(payload)
