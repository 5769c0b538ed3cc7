"""The layer in CuTe DSL: an implicit matrix product over taps and channels, then bias, ReLU and pool.

A block computes SIZE[0] filters of a box of SIZE[1] pixels. One warp fetches, the others multiply. To the copies the input is
a matrix of pixels by channels of all taps, which overlap. The blocks of a cluster share their pixels: each fetches a part for
all of them.
"""

import cutlass
import cutlass.cute as cute
from cutlass import Constexpr, memory, pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.utils.hopper_helpers import make_trivial_tiled_mma


@cute.kernel
def product(
    fetch_a, a, fetch_b, b, bias, out, layout_a, layout_b, TYPE: Constexpr, SIZE: Constexpr, CLUSTER: Constexpr,
):  # fmt: skip
    (across, down), K, groups = SIZE[1], OperandMajorMode.K, SIZE[0] // 64
    mma = make_trivial_tiled_mma(TYPE, TYPE, K, K, out.element_type, (groups, 1, 1), (64, across * down))
    filters, column, row = cute.arch.block_idx()
    at, stages, everyone = (column, row), cute.size(layout_a, mode=[2]), cutlass.Int16(2**CLUSTER - 1)
    shared, warp = memory.SmemAllocator(), cute.arch.make_warp_uniform(cute.arch.warp_idx())
    staged_a = shared.allocate_tensor(TYPE, layout_a.outer, 1024, layout_a.inner)
    staged_b = shared.allocate_tensor(TYPE, layout_b.outer, 1024, layout_b.inner)
    producer, consumer = pipeline.PipelineTmaAsync.create(
        num_stages=stages, producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 4 * groups * CLUSTER),
        tx_count=cute.size_in_bytes(TYPE, layout_a) // stages + cute.size_in_bytes(TYPE, layout_b) // stages,
        barrier_storage=shared.allocate_array(cutlass.Int64, 2 * stages),
        cta_layout_vmnk=cute.make_layout((1, CLUSTER, 1, 1)),
    ).make_participants()  # fmt: skip
    a, b = cute.local_tile(a, SIZE[::2], (filters, None)), cute.local_tile(b, SIZE[1:], (at, None))
    if warp == 4 * groups:
        rank, flat = cute.arch.block_idx_in_cluster(), [cute.group_modes(t, 0, 2) for t in (staged_a, a, staged_b, b)]
        to_a, from_a = cpasync.tma_partition(fetch_a, 0, cute.make_layout(1), *flat[:2])
        to_b, from_b = cpasync.tma_partition(fetch_b, rank, cute.make_layout(CLUSTER), *flat[2:])
        for step in cutlass.range(cute.size(a, mode=[2]), unroll=1):
            stage = producer.acquire_and_advance()
            cute.copy(fetch_a, from_a[None, step], to_a[None, stage.index], tma_bar_ptr=stage.barrier)
            cute.copy(
                fetch_b, from_b[None, step], to_b[None, stage.index], tma_bar_ptr=stage.barrier, mcast_mask=everyone
            )
        producer.tail()
    else:
        own, done = mma.get_slice(cute.arch.thread_idx()[0]), consumer.clone()
        all_a, all_b = mma.make_fragment_A(own.partition_A(staged_a)), mma.make_fragment_B(own.partition_B(staged_b))
        tiles = (cute.local_tile(t, SIZE[:2], (filters, at)) for t in (out, bias, cute.make_identity_tensor(out.shape)))
        here = [own.partition_C(tile) for tile in tiles]
        sums = cute.make_rmem_tensor(here[0].shape, out.element_type)
        mma.set(warpgroup.Field.ACCUMULATE, False)
        for step in cutlass.range(cute.size(a, mode=[2]), unroll=1):
            stage = consumer.wait_and_advance()
            warpgroup.fence()
            for part in cutlass.range_constexpr(cute.size(all_a, mode=[2])):
                cute.gemm(mma, sums, all_a[None, None, part, stage.index], all_b[None, None, part, stage.index], sums)
                mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            warpgroup.wait_group(1)
            if step > 0:
                done.release()
                done.advance()
        warpgroup.wait_group(0)
        done.release()
        pool = cute.make_layout(((2, 2), (2, across // 8, down // 2)), stride=((1, across // 2), (2, 4, across)))
        window, result, added, place = (cute.composition(t, pool) for t in (sums, *here))
        for w in cutlass.range_constexpr(cute.size(pool, mode=[1])):
            largest = cutlass.max(cutlass.max(window[0, w], window[1, w]), cutlass.max(window[2, w], window[3, w]))
            if cute.elem_less(place[0, w], out.shape):
                result[0, w] = cutlass.max(largest + added[0, w], out.element_type(0))


@cute.jit
def layer(
    pixels: cute.Pointer, taps: cute.Pointer, bias: cute.Pointer, out: cute.Pointer, HEIGHT: Constexpr, WIDTH: Constexpr,
    CHANNELS: Constexpr, FILTERS: Constexpr, TAPS: Constexpr, SIZE: Constexpr, STAGES: Constexpr, CLUSTER: Constexpr,
):  # fmt: skip
    values, line, ALL = CHANNELS * TAPS**2, (WIDTH + TAPS - 1) * CHANNELS, HEIGHT // 2 * (WIDTH // 2)
    a = cute.make_tensor(taps, cute.make_layout((FILTERS, values), stride=(values, 1)))
    unfolded = ((WIDTH, HEIGHT), (CHANNELS, TAPS, TAPS)), ((CHANNELS, line), (1, CHANNELS, line))
    b = cute.make_tensor(pixels, cute.make_layout(unfolded[0], stride=unfolded[1]))
    shape = FILTERS, ((2, WIDTH // 2), (2, HEIGHT // 2))
    out = cute.make_tensor(out, cute.make_layout(shape, stride=(ALL, ((0, 1), (0, WIDTH // 2)))))
    bias = cute.make_tensor(bias, cute.make_layout(shape, stride=(1, ((0, 0), (0, 0)))))
    (across, down), swizzled = SIZE[1], warpgroup.SmemLayoutAtomKind.K_SW128
    atom = warpgroup.make_smem_layout_atom(swizzled, a.element_type)
    sizes = (SIZE[0], SIZE[2], STAGES), (across * down, SIZE[2], STAGES)
    layout_a, layout_b = (cute.tile_to_shape(atom, size, (0, 1, 2)) for size in sizes)
    fetch_a, a_map = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), a, layout_a, SIZE[::2])
    to_all = cpasync.CopyBulkTensorTileG2SMulticastOp()
    fetch_b, b_map = cpasync.make_tiled_tma_atom(to_all, b, layout_b, SIZE[1:], num_multicast=CLUSTER)
    blocks = cute.round_up(cute.ceil_div(FILTERS, SIZE[0]), CLUSTER), *map(cute.ceil_div, (WIDTH, HEIGHT), SIZE[1])
    product(fetch_a, a_map, fetch_b, b_map, bias, out, layout_a, layout_b, a.element_type, SIZE, CLUSTER).launch(
        grid=blocks, block=(2 * SIZE[0] + 32, 1, 1), cluster=(CLUSTER, 1, 1)
    )
