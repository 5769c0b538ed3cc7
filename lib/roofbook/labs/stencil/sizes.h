// The size of the grid: from the launch, or compiled in.
//
// Knob SIZES:  ARGUMENTS  height and width are arguments of the kernel;  COMPILED  they are the constants HEIGHT and WIDTH
// Knob HEIGHT: rows, if SIZES is COMPILED
// Knob WIDTH:  columns, if SIZES is COMPILED
#pragma once
#ifndef SIZES
#define SIZES ARGUMENTS
#endif
#define ARGUMENTS 1
#define COMPILED 2
#if SIZES == COMPILED
#define SIZE_ARGUMENTS
#define ROW_LENGTH WIDTH
#define LAST_ROW (HEIGHT - 1)
#else
#define SIZE_ARGUMENTS , int height, int width
#define ROW_LENGTH width
#define LAST_ROW (height - 1)
#endif
