"""WGSL, the language of WebGPU, from the neutral dialect: `translated` turns a kernel's text into a module of WGSL.

The translation is our own, over pycparser, and not Slang's: it follows each pointer to the array that it points into, and so
turns pointers into the middle of a buffer, casts to vectors and bytes in words into indices, which Slang leaves to its target.
What it cannot turn is a reason, `NotInWgsl`.
"""

from .text import translated
from .values import NotInWgsl

__all__ = ["NotInWgsl", "translated"]
