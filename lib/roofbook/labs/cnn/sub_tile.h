// The sub-tile of outputs that a work-item computes: its sides, its first output and its alignment.
//
// Knob SUB_I: filters of a sub-tile
// Knob SUB_H: rows of a sub-tile
// Knob SUB_W: columns of a sub-tile
// Knob START: GROUP_NUMBER   at get_group_id() times the group's tile plus get_local_id() times the sub-tile
//             GLOBAL_NUMBER  at get_global_id() times the sub-tile
//             DIVIDED        as GROUP_NUMBER, with the group's number from get_global_id() by a division, as in the report
// Knob ALIGN: NATURAL  as the compiler likes;  LINE  to 128 bytes
#pragma once
#ifndef START
#define START GROUP_NUMBER
#endif
#ifndef ALIGN
#define ALIGN NATURAL
#endif
#define GROUP_NUMBER 1
#define GLOBAL_NUMBER 2
#define DIVIDED 3
#define NATURAL 1
#define LINE 2
#if START == GROUP_NUMBER
#define PLACE(d, sub) GROUP_ID(d) * LOCAL_SIZE(d) * sub + LOCAL_ID(d) * sub
#elif START == DIVIDED
#define PLACE(d, sub) GLOBAL_ID(d) / LOCAL_SIZE(d) * LOCAL_SIZE(d) * sub + LOCAL_ID(d) * sub
#else
#define PLACE(d, sub) GLOBAL_ID(d) * sub
#endif
#if ALIGN == LINE
#define PLACED ALIGNED(128)
#else
#define PLACED
#endif
