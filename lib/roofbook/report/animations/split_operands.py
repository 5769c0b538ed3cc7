"""Animation of split operands: an fp32 number becomes two of fp16, and three products of these are nearly as exact as fp32."""

import math

import numpy as np

from ...analysis.format import number
from .scene import FIRST, SECOND, Animation, Scene, Stage

A, B = np.float32(math.pi / 3), np.float32(math.sqrt(2))
"""Operands of the example: no power of two divides them, so each rounding loses something."""


def split(value: np.float32, scale: float) -> tuple[np.float16, np.float16]:
    """Return both parts of a number, as a kernel makes them: it rounded to fp16, and the remainder times `scale` rounded."""
    high = np.float16(value)
    return high, np.float16((value - np.float32(high)) * np.float32(scale))


def product_errors(a: np.float32, b: np.float32, scale: float) -> tuple[float, float, float]:
    """Return the relative errors of a x b by operands rounded to fp16, by three products of parts, and by fp32."""
    exact = float(a) * float(b)
    (a_high, a_low), (b_high, b_low) = split(a, scale), split(b, scale)
    large = np.float32(float(a_high) * float(b_high))
    small = np.float32(float(a_low) * float(b_high) + float(a_high) * float(b_low))
    three = np.float32(large + small / np.float32(scale))
    rounded, three_error, plain = (abs(float(result) / exact - 1) for result in (large, three, np.float32(a * b)))
    return rounded, three_error, plain


def split_operands(scale: float) -> Animation:
    """Return the animation. scale: factor of the remainder in the kernel."""
    bits, part_bits = np.finfo(np.float32).nmant + 1, np.finfo(np.float16).nmant + 1
    high, low = split(A, scale)
    rounded_error, error, plain_error = product_errors(A, B, scale)
    stages = (
        Stage(
            f"An operand in fp32 has {bits} bits, such as {A:.8f}. The units that multiply fastest take fp16, with "
            f"{part_bits}.",
            {"a": float(A), "bits_fp32": bits, "bits_fp16": part_bits},
        ),
        Stage(f"The high part is the operand rounded to fp16: {float(high):.8f}.", {"a_high": float(high)}),
        Stage(
            f"The low part is the remainder, times {scale:.0f} so that it does not become too small, rounded to fp16: "
            f"{float(low):.8f}.",
            {"scale": scale, "a_low": float(low)},
        ),
        Stage("Three products: low x high, high x low, high x high. The fourth, low x low, is too small to matter."),
        Stage(
            f"The small sum over {scale:.0f} joins the large one. Error of {A:.4f} x {B:.4f}: {number(rounded_error)} by high "
            f"parts alone, {number(error)} by three products, {number(plain_error)} by fp32.",
            {"error_high_only": rounded_error, "error_three_products": error, "error_fp32": plain_error},
        ),
    )
    scene = Scene(460, 210, len(stages))
    cell = 14.0
    scene.text((12, 20), f"fp32: {bits} bits")
    scene.cells((12, 28), cell, 1, bits)
    down = 44.0
    scene.cells((12, 28 + down), cell, 1, part_bits, FIRST, during=range(1, 5), offsets={0: (0, -down), 1: (0, 0)})
    scene.text((12, 102), "high", FIRST, during=range(1, 5))
    low_left = 12 + cell * part_bits
    scene.cells(
        (low_left + 12, 28 + down), cell, 1, part_bits, SECOND, during=range(2, 5), offsets={0: (-12, -down), 2: (0, 0)}
    )
    scene.text((low_left + 12, 102), f"low, times {scale:.0f}", SECOND, during=range(2, 5))
    for line, (words, colour) in enumerate(
        (("low x high", SECOND), ("high x low", SECOND), ("high x high", FIRST), ("low x low", "currentColor"))
    ):
        top, is_left_out = 116 + 23 * line, line == 3
        scene.box(
            (12, top), (92, 18), colour, filled=0 if is_left_out else 0.25, dashed=is_left_out, during=range(3, 5)
        )
        scene.text((58, top + 13), words, anchor="middle", during=range(3, 5))
    scene.text((114, 198), "left out", during=range(3, 5))
    scene.arrow((106, 137), (168, 137), SECOND, during=range(3, 5))
    scene.box((172, 126), (92, 22), SECOND, filled=0.25, during=range(3, 5))
    scene.text((218, 141), "small sum", anchor="middle", during=range(3, 5))
    scene.arrow((106, 171), (168, 171), FIRST, during=range(3, 5))
    scene.box((172, 160), (92, 22), FIRST, filled=0.25, during=range(3, 5))
    scene.text((218, 175), "large sum", anchor="middle", during=range(3, 5))
    scene.arrow((266, 137), (332, 152), SECOND, during=range(4, 5))
    scene.text((282, 130), f"/ {scale:.0f}", SECOND, during=range(4, 5))
    scene.arrow((266, 171), (332, 158), FIRST, during=range(4, 5))
    scene.box((336, 144), (112, 22), filled=0.12, during=range(4, 5))
    scene.text((392, 159), "sum in fp32", anchor="middle", during=range(4, 5))
    return Animation(
        "split-operands",
        "A number in two parts, and three products",
        f"Above the {bits} bits of an fp32 number, below its high and low part of {part_bits} bits each. Products "
        "low x high and high x low go to a small sum, high x high to a large sum; both join in fp32, and low x low is left out",
        stages,
        scene,
    )
