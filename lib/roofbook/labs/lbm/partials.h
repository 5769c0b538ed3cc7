// The partial sums of |u|, one a work-group: how they are formed, where they go, and the sum of a step at the end.
// A kernel on vectors sets WIDTH before it includes this, the cells of a work-item, and has a partial sum a work-item.
//
// Knob REDUCE:      SERIAL  one work-item of the group adds them up;  TREE  halving
// Knob COUNT_CELLS: 1  the fluid cells are counted anew each step, as the course's program does;  0  the host knows them
// Knob PARTIALS:    READ   one slot a group, the host reads them after each step
//                   KEPT   a row of slots a step stays on the device
//                   GRAPH  kept as well; the step is counted on the device, for launches that are recorded once
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
#define READ 1
#define KEPT 2
#define GRAPH 3
#ifdef WIDTH
#define SLOTS ((nx + WIDTH - 1) / WIDTH * ny)
#else
#define SLOTS GROUPS(0) * GROUPS(1)
#endif
#if REDUCE == TREE
#define REDUCTION "reduce_tree.inc"
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
