// Products of one warp on tensor cores, mma.m16n8kK, as every NVIDIA GPU since Ampere has them. K is eight words of 4 bytes wide:
// 16 numbers of fp16 or bf16, 32 of int8, 8 of tf32. Numbers are those of the sections of PTX ISA 8.8: 9.7.14.5.8, Matrix
// Fragments for mma.m16n8k16 with floating point type; 9.7.14.5.10, Matrix Fragments for mma.m16n8k32. What a lane holds:
//
//   A, 16 rows                        word MEMBER(lane)       word MEMBER(lane) + 4
//     row GROUP(lane)                     a[0]                    a[2]
//     row GROUP(lane) + 8                 a[1]                    a[3]
//   B, 8 columns
//     column GROUP(lane)                  b0                      b1
//   sums, 16 rows by 8 columns        column 2 MEMBER(lane)   2 MEMBER(lane) + 1
//     row GROUP(lane)                     c[0]                    c[1]
//     row GROUP(lane) + 8                 c[2]                    c[3]
#pragma once
#define GROUP(lane) (lane / 4)
#define MEMBER(lane) (lane % 4)
#define FRAGMENT_ROW(group, a) (group + a % 2 * 8)
#define FRAGMENT_WORD(member, a) (member + a / 2 % 2 * 4)
