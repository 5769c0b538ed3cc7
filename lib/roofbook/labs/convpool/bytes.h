// x (channel, row, column) -> pixels (row, column, channel) as bytes, filled up with zeros; a block turns 32 columns of a slice.
KERNEL_OF(256, 4) void to_pixels(const short *RESTRICT x, unsigned int *RESTRICT pixels) {
  __shared__ short tile[SLICE][34];
  const int lane = threadIdx.x, row = blockIdx.y, first = blockIdx.z * SLICE, w0 = blockIdx.x * 32;
  for (int k = lane; k < SLICE * 32; k += 256) {
    const int j = first + k / 32, column = w0 + k % 32;
    tile[k / 32][k % 32] = j < DEPTH && column < X_ROW ? x[X_AT(j, row, column)] : 0;
  }
  __syncthreads();
  for (int k = lane; k < 32 * SLICE / 4; k += 256) {
    const int column = k / (SLICE / 4), j = k % (SLICE / 4) * 4;
    if (w0 + column < X_ROW) {
      unsigned int word = 0;
      for (int b = 0; b < 4; b++) word |= (tile[j + b][column] & 255u) << 8 * b;
      pixels[((row * X_ROW + w0 + column) * SLICES * SLICE + first + j) / 4] = word;
    }
  }
}
