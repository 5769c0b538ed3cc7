/* Vectors as wide as the registers that the compiler may use, for the C peers, by an extension of gcc and clang. Arithmetic
   is by lane, also with a scalar; a vector may lie at any address of a number. */
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
#if defined(__AVX512F__) || defined(__aarch64__)
#define REGISTERS 32
#else
#define REGISTERS 16
#endif
typedef float floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* The vector at an address, read once: without volatile, some compilers read it again for each product. */
#define FLOATS_AT(address) (*(const volatile floats *)(address))
