// A kernel of somebody's own, for the benchmark of its first and its second use.
template <typename T> __device__ T horner(const T* c, int n, T x) {
  T y = c[n - 1];
  for (int i = n - 2; i >= 0; i--) y = y * x + c[i];
  return y;
}

template <typename T, int Block>
__global__ void integrate(T* out, const T* c, int n, T from, T step, unsigned long long points) {
  __shared__ T part[Block];
  T sum = 0;
  for (unsigned long long i = blockIdx.x * (unsigned long long)Block + threadIdx.x; i < points;
       i += (unsigned long long)Block * gridDim.x)
    sum += horner(c, n, from + step * (T)i) * step;
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = Block / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
