// How a kernel knows the size of the grid.
//
// Knob SIZES:  ARGUMENTS  height and width come with the launch;  COMPILED  they are constants, HEIGHT and WIDTH
// Knob HEIGHT: rows, where they are compiled in
// Knob WIDTH:  columns, where they are compiled in
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
