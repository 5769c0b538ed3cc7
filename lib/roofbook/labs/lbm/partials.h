// The partial sums of |u|, one a work-group: their reduction, their places in memory, and the sum of a step at the end.
// A kernel on vectors sets WIDTH, the cells of a work-item, before it includes this, and has one partial sum a work-item.
//
// Knob REDUCE:      SERIAL  one work-item of the group adds them up;  TREE  by halving
//                   CELLS   no sum in the group: with PARTIALS = KEPT, a speed a cell
//                   SUBGROUP  by sums over subgroups, which need no local memory
//                   WARPS  the same, with a slot a warp: no local memory, no barrier (CUDA)
// Knob COUNT_CELLS: 1  each step counts the fluid cells anew, like the course's program;  0  the host knows their number
// Knob PARTIALS:    READ   one slot a group, which the host reads after each step
//                   KEPT   one row of slots a step, which stays on the device
//                   GRAPH  one row of slots a step; the device counts the steps, for launches that are recorded once
// Knob GROUP_SIZE:  work-items of a group
#pragma once
#ifndef REDUCE
#define REDUCE SERIAL
#endif
#ifndef COUNT_CELLS
#define COUNT_CELLS 1
#endif
#ifndef PARTIALS
#define PARTIALS READ
#endif
#ifndef GROUP_SIZE
#define GROUP_SIZE 64
#endif
#define SERIAL 1
#define TREE 2
#define CELLS 3
#define SUBGROUP 4
#define WARPS 5
#define READ 1
#define KEPT 2
#define GRAPH 3
#ifdef WIDTH
#define SLOTS ((nx + WIDTH - 1) / WIDTH * ny)
#elif REDUCE == WARPS
#define SLOTS GROUPS(0) * GROUPS(1) * SUBGROUP_COUNT()
#else
#define SLOTS GROUPS(0) * GROUPS(1)
#endif
#if REDUCE == TREE
#define REDUCTION "reduce_tree.inc"
#elif REDUCE == CELLS
#define REDUCTION "reduce_cells.inc"
#elif REDUCE == SUBGROUP
#include "subgroups.h"
#define REDUCTION "reduce_subgroups.inc"
#elif REDUCE == WARPS
#include "subgroups.h"
#define REDUCTION "reduce_warps.inc"
#else
#define REDUCTION "reduce_serial.inc"
#endif
#if COUNT_CELLS
#define COUNTED(code) code
#define COUNTS_ARGUMENT , GLOBAL int *RESTRICT counts
#else
#define COUNTED(code)
#define COUNTS_ARGUMENT
#endif
#if PARTIALS == KEPT
#define STEP_ARGUMENT , int step
#define SLOT(group) step * SLOTS + group
#elif PARTIALS == GRAPH
#define STEP_ARGUMENT , GLOBAL const int *RESTRICT done, int step
#define SLOT(group) (*done + step) * SLOTS + group
#else
#define STEP_ARGUMENT
#define SLOT(group) group
#endif
// Finds a warp's slot before the populations are loaded, so that the load of the number of steps overlaps with theirs.
#if REDUCE == WARPS
#define FIND_SLOT const int slot = SLOT((GROUP_ID(1) * GROUPS(0) + GROUP_ID(0)) * SUBGROUP_COUNT() + SUBGROUP_NUMBER());
#else
#define FIND_SLOT
#endif
