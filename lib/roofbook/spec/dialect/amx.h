// Instructions of x86 CPUs with AMX, as assembly within the text: products of matrices in eight tiles, each a register of 1 KB.
// Tiles are numbered 0 to 7, and hold 16 rows of 64 bytes. PoCL's compiler knows nothing of them: what a work-item leaves in a
// tile stays there until an instruction changes it. The process must have asked the system for the tiles (pocl_probe.py).
#pragma once

// Gives all eight tiles 16 rows of 64 bytes. Each work-item begins with it, and ends with TILES_END.
#define TILES_BEGIN                                                                                         \
  const int16 tile_shapes = (int16)(1, 0, 0, 0, 0x400040, 0x400040, 0x400040, 0x400040, 0, 0, 0, 0,       \
                                    0x10101010, 0x10101010, 0, 0);                                          \
  __asm__ volatile("ldtilecfg %0" : : "m"(tile_shapes));
#define TILES_END __asm__ volatile("tilerelease" : : : "memory");
// tile = 0
#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : : : "memory");
// tile = 16 rows of 64 bytes, the first at a pointer, each `stride` bytes after the one before
#define TILE_LOAD(tile, pointer, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(pointer), "r"((long)(stride)) : "memory");
#define TILE_STORE(tile, pointer, stride) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(pointer), "r"((long)(stride)) : "memory");
// The three tiles of a product must be three: the processor refuses an instruction with one of them twice.
// sums (fp32, row i, column k) += the sum over j of two products of bf16: row i, word j of a with row j, word k of b
#define TILE_ADD_BF16(sums, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sums : : : "memory");
// sums (int32, row i, column k) += the sum over j of four products of bytes with a sign: row i, word j of a with row j, word k of b
#define TILE_ADD_BYTES(sums, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #sums : : : "memory");
