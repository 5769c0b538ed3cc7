// The input channels of a group: all in a loop, or one.
//
// Knob CHANNELS_BY: LOOP    a work-item adds up all input channels
//                   ATOMIC  a group has one input channel, and adds to the output by atomic operations
#pragma once
#ifndef CHANNELS_BY
#define CHANNELS_BY LOOP
#endif
#include "layer.h"
#define LOOP 1
#define ATOMIC 2
#if CHANNELS_BY == ATOMIC
#include "clear.h"
#define FILTER (GROUP_ID(0) / CHANNELS)
#define FIRST_CHANNEL (GROUP_ID(0) % CHANNELS)
#define LAST_CHANNEL FIRST_CHANNEL
#define RESULT(pointer, sum) ATOMIC_ADD(pointer, sum)
#else
#define FILTER GROUP_ID(0)
#define FIRST_CHANNEL 0
#define LAST_CHANNEL (CHANNELS - 1)
#define RESULT(pointer, sum) *(pointer) = (sum)
#endif
