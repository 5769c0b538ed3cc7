"""Frames on a pipe to an untrusted process: the lengths of a JSON header and of a payload, then both."""

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

LENGTHS = struct.Struct("<IQ")
"""Numbers of bytes of the header and of the payload."""
LONGEST_HEADER = 1 << 16
LONGEST_PAYLOAD = 1 << 31


class BadFrame(Exception):
    """Bytes that are not a valid frame."""


def frame_of(header: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    text = json.dumps(header).encode()
    return LENGTHS.pack(len(text), len(payload)) + text + payload


def frame_lengths(start: bytes) -> tuple[int, int]:
    """Return the lengths of header and payload from the start of a frame. Raises BadFrame if one is too large."""
    header, payload = LENGTHS.unpack(start)
    if header > LONGEST_HEADER or payload > LONGEST_PAYLOAD:
        raise BadFrame(f"a frame of {header} and {payload} bytes")
    return header, payload


def header_of(text: bytes) -> dict[str, Any]:
    """Return the header in these bytes. Raises BadFrame if they are no JSON object."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFrame("a header that is no JSON") from error
    if not isinstance(header, dict):
        raise BadFrame("a header that is no object")
    return header


def write_frame(pipe: BinaryIO, header: Mapping[str, Any], payload: bytes = b"") -> None:
    """Write a frame, and wait until it is written."""
    pipe.write(frame_of(header, payload))
    pipe.flush()


def read_frame(pipe: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Wait for a frame of a trusted process, and return header and payload; None at the end of the pipe."""
    start = pipe.read(LENGTHS.size)
    if len(start) < LENGTHS.size:
        return None
    header, payload = frame_lengths(start)
    return header_of(pipe.read(header)), pipe.read(payload)
