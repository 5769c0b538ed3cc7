// The barrier of a cluster in two halves. The arrival publishes nothing that its thread wrote; the wait sees what other blocks published.
#pragma once
DEVICE void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
DEVICE void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
