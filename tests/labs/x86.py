"""Kernels with x86 instructions in their text, on any CPU: OpenCL C stands in for each instruction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from roofbook.devices.contract import Device

STAND_INS = """
typedef union {
  int16 words; float16 floats; short shorts[32]; uchar bytes[64]; char signed_bytes[64]; int lanes[16];
} lanes_of;
int16 x86_vpdpbusd(int16 sums, int16 a, int16 b) {
  lanes_of sum = {sums}, left = {a}, right = {b};
  for (int k = 0; k < 64; k++) sum.lanes[k / 4] += left.bytes[k] * right.signed_bytes[k];
  return sum.words;
}
float bf16_at(lanes_of vector, int k) { return as_float((int)vector.shorts[k] << 16); }
float16 x86_vdpbf16ps(float16 sums, int16 a, int16 b) {
  lanes_of sum = {.floats = sums}, left = {a}, right = {b};
  for (int k = 0; k < 16; k++)
    for (int j = 1; j >= 0; j--)
      sum.lanes[k] = as_int(fma(bf16_at(left, 2 * k + j), bf16_at(right, 2 * k + j), as_float(sum.lanes[k])));
  return sum.floats;
}
int16 interleaved(int16 a, int16 b, int bytes, int first) {
  lanes_of left = {a}, right = {b}, result;
  for (int k = 0; k < 64; k++) {
    const int at = k / 16 * 16 + first + k % 16 / (2 * bytes) * bytes + k % bytes;
    result.bytes[k] = k / bytes % 2 ? right.bytes[at] : left.bytes[at];
  }
  return result.words;
}
int16 x86_vpunpcklbw(int16 a, int16 b) { return interleaved(a, b, 1, 0); }
int16 x86_vpunpckhbw(int16 a, int16 b) { return interleaved(a, b, 1, 8); }
int16 x86_vpunpcklwd(int16 a, int16 b) { return interleaved(a, b, 2, 0); }
int16 x86_vpunpckhwd(int16 a, int16 b) { return interleaved(a, b, 2, 8); }
ushort x86_vptestmd(int16 a) {
  lanes_of vector = {a};
  ushort mask = 0;
  for (int k = 0; k < 16; k++) mask |= (vector.lanes[k] != 0) << k;
  return mask;
}
int16 x86_vpcompressd(int16 a, ushort mask) {
  lanes_of vector = {a}, result = {(int16)(0)};
  for (int k = 0, to = 0; k < 16; k++)
    if (mask >> k & 1) result.lanes[to++] = vector.lanes[k];
  return result.words;
}
void x86_tilezero(int *tile) {
  for (int k = 0; k < 256; k++) tile[k] = 0;
}
void x86_tileloadd(int *tile, __global const int *from, long stride) {
  for (int k = 0; k < 256; k++) tile[k] = *(__global const int *)((__global const char *)from + k / 16 * stride + k % 16 * 4);
}
void __attribute__((overloadable)) x86_tilestored(const int *tile, void *to, long stride) {
  for (int k = 0; k < 256; k++) *(int *)((char *)to + k / 16 * stride + k % 16 * 4) = tile[k];
}
void __attribute__((overloadable)) x86_tilestored(const int *tile, __global void *to, long stride) {
  for (int k = 0; k < 256; k++) *(__global int *)((__global char *)to + k / 16 * stride + k % 16 * 4) = tile[k];
}
void x86_tdpbf16ps(int *sums, const int *a, const int *b) {
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 16; k++)
      for (int j = 0; j < 32; j++) {
        const float left = as_float((int)((const short *)a)[32 * i + j] << 16);
        const float right = as_float((int)((const short *)b)[32 * (j / 2) + 2 * k + j % 2] << 16);
        sums[16 * i + k] = as_int(fma(left, right, as_float(sums[16 * i + k])));
      }
}
void x86_tdpbssd(int *sums, const int *a, const int *b) {
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 16; k++)
      for (int j = 0; j < 64; j++)
        sums[16 * i + k] += ((const char *)a)[64 * i + j] * ((const char *)b)[64 * (j / 4) + 4 * k + j % 4];
}
"""
_ON_TILES = {
    r'\("ldtilecfg %0" : : "m"\(tile_shapes\)\);': "int tiles[8][256]; (void)tile_shapes;",
    r'\("tilerelease" : : : "memory"\);': "",
    r'\("tilezero %%tmm" "(\d)" : : : "memory"\);': r"x86_tilezero(tiles[\1]);",
    r'\("tileloadd \(%0,%1,1\), %%tmm" "(\d)" : : "r"\((.+?)\),\s+"r"\(\(long\)\((.+?)\)\) : "memory"\);':
        r"x86_tileloadd(tiles[\1], \2, \3);",
    r'\("tilestored %%tmm" "(\d)" ", \(%0,%1,1\)" : : "r"\((.+?)\),\s+"r"\(\(long\)\((.+?)\)\) : "memory"\);':
        r"x86_tilestored(tiles[\1], \2, \3);",
    r'\("(tdp\w+) %%tmm" "(\d)" ", %%tmm" "(\d)" ", %%tmm" "(\d)" : : : "memory"\);':
        r"x86_\1(tiles[\4], tiles[\3], tiles[\2]);",
}  # fmt: skip
"""Pattern of an instruction on AMX's tiles, as amx.h has it -> what stands in for it. Tiles are a work-item's own array."""
_INSTRUCTION = re.compile(r'__asm__\("(\w+)(?:" ")? [^"]*"\s*:\s*("[^:]*?)\s*:\s*("[^;]*)\);')
_OPERAND = re.compile(r'"([=+]?)\w+"\(((?:[^()]|\([^()]*\))*)\)')


def in_opencl(text: str) -> str:
    """Return OpenCL C in which calls of functions stand in for x86 instructions. Raises ValueError for an unknown one."""

    def call(match: re.Match[str]) -> str:
        if f"x86_{match[1]}(" not in STAND_INS:
            raise ValueError(f"nothing stands in for {match[1]}")
        ((mode, result),) = _OPERAND.findall(match[2])
        arguments = [*[result] * (mode == "+"), *(operand for _, operand in _OPERAND.findall(match[3]))]
        return f"{result} = x86_{match[1]}({', '.join(arguments)});"

    for instruction, stand_in in _ON_TILES.items():
        text = re.sub(rf"__asm__ volatile{instruction}", stand_in, text)
    text = _INSTRUCTION.sub(call, text)
    if "__asm__" in text:
        raise ValueError("assembly of another form")
    return STAND_INS + text


class InOpenCL:
    """A device that runs kernels with x86 instructions whatever its CPU has."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def lacks_instructions(self, feature: str) -> str:
        return ""

    def build(self, text: str, options: Sequence[str] = ()) -> Any:
        return self._device.build(in_opencl(text), options)
