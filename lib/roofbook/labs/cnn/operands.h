// The operands of the tensor cores: rounded, with channels innermost, padded with zeros to whole tiles. A block computes TILE_I
// filters by TILE_H x TILE_W pixels. It takes DEPTH channels at a time, a line of 128 bytes; one product of the matrix units takes
// PRODUCT_DEPTH channels. A kernel that splits operands sets PARTS to 2 before it includes this; one with narrower tiles, TILE_W.
//
// Knob OPERANDS: SHORT  2 bytes, of type ELEMENT
//                TF32   4 bytes, of which the matrix units read 19 bits
#pragma once
#ifndef OPERANDS
#define OPERANDS SHORT
#endif
#define SHORT 1
#define TF32 2
#ifndef PARTS
#define PARTS 1
#endif
#ifndef TILE_W
#define TILE_W 32
#endif
#if OPERANDS == TF32
#define OPERAND_BYTES 4
#define DEPTH 32
#define PRODUCT_DEPTH 8
#else
#define OPERAND_BYTES 2
#define DEPTH 64
#define PRODUCT_DEPTH 16
#endif
#define LINE (DEPTH * OPERAND_BYTES)
#include "layer.h"
#define TILE_I 128
#define TILE_H 8
#define TAPS_2 (TAPS * TAPS)
#define PADDED_CHANNELS ((CHANNELS + DEPTH - 1) / DEPTH * DEPTH)
#define PADDED_FILTERS ((FILTERS + 2 * TILE_I - 1) / (2 * TILE_I) * 2 * TILE_I)
#define SPLIT_SCALE 2048.0f
