// Programmatic dependent launch, by PTX for architectures from 9.0 on: a kernel may begin before the one before it has ended, if the
// host launches it so (`Kernel.configure`). After any other launch these words do nothing. PTX ISA 8.8, griddepcontrol.
#pragma once
// Waits until the kernel before has ended, and all that it wrote is visible. No access of memory moves across it.
#define WAIT_FOR_KERNEL_BEFORE() asm volatile("griddepcontrol.wait;" ::: "memory")
// Lets the next kernel begin, once each group of this one has come here or has ended.
#define LET_NEXT_KERNEL_BEGIN() asm volatile("griddepcontrol.launch_dependents;")
