// The kernel of the example, as it is compiled while the program runs. rule.ptx is what NVRTC
// 11.8 makes of it for compute_75, with .version lowered to 6.4, which older drivers read too.

// step gives each of n cells in a ring its next state, by the rule of that number: bit 4a+2b+c
// of it, where a, b and c are the states of the cell on the left, the cell and the one on the
// right.
extern "C" __global__ void step(unsigned char *to, const unsigned char *from, unsigned n, unsigned rule) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned left = from[i == 0 ? n - 1 : i - 1], right = from[i + 1 == n ? 0 : i + 1];
  to[i] = rule >> (4 * left + 2 * from[i] + right) & 1;
}
