// CUB beside the primitives in Go: the same inputs, the same checksums, the same way to time. TestPrimitivesBesideCUB compiles
// each PART with nvcc on the GPU host, and runs it with a number of elements.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include <cub/cub.cuh>
#include <cuda/std/functional>

#define CHECK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { \
  std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); std::exit(1); } } while (0)

__global__ void randomKernel(uint32_t *out, size_t n, int kind) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    uint64_t h = ((uint64_t)(kind == 3 ? i / 8 : i) + 1) * 0x9E3779B97F4A7C15ull;
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9ull;
    h = (h ^ h >> 27) * 0x94D049BB133111EBull;
    uint32_t v = (uint32_t)(h ^ h >> 31);
    if (kind == 1) { uint32_t m = v % 3; v = m == 0 ? 0u : m == 1 ? 0x3f800000u : 0xbf800000u; }
    if (kind == 2) v = (uint32_t)i;
    if (kind == 4) v = i % 2 == 0 ? (uint32_t)(i / 2 * 100) : 0;
    out[i] = v;
  }
}

__global__ void checksumKernel(unsigned long long *sum, const uint32_t *in, size_t n) {
  uint64_t s = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    uint64_t h = (uint64_t)in[i] * 0x9E3779B97F4A7C15ull ^ (uint64_t)i * 0xC2B2AE3D27D4EB4Full;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9ull;
    s += h ^ h >> 32;
  }
  atomicAdd(sum, (unsigned long long)s);
}

struct Below { uint32_t bound; __host__ __device__ bool operator()(uint32_t v) const { return v < bound; } };
struct alignas(8) Box { float min, max; unsigned long long sum; };
struct Union { __host__ __device__ Box operator()(Box a, Box b) const { return Box{fminf(a.min, b.min), fmaxf(a.max, b.max), a.sum + b.sum}; } };
struct Item { uint32_t key, value; };
struct ByKey { __host__ __device__ bool operator()(Item a, Item b) const { return a.key < b.key; } };
struct Up { __host__ __device__ bool operator()(uint32_t a, uint32_t b) const { return a < b; } };

static cudaStream_t stream;
static cudaEvent_t evA, evB;
static unsigned long long *sumD;
static int n, runs = 11;
static bool capture = true;

static unsigned long long checksum(const void *p, size_t words) {
  CHECK(cudaMemsetAsync(sumD, 0, 8, stream));
  checksumKernel<<<1024, 256, 0, stream>>>(sumD, (const uint32_t *)p, words);
  unsigned long long h;
  CHECK(cudaMemcpyAsync(&h, sumD, 8, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  return h;
}

static std::vector<void *> owned;

template <class T> static T *make(size_t words, int kind) {
  uint32_t *p;
  CHECK(cudaMalloc(&p, std::max<size_t>(words, 4) * 4));
  owned.push_back(p);
  if (kind < 0) CHECK(cudaMemsetAsync(p, 0, words * 4, stream));
  else randomKernel<<<1024, 256, 0, stream>>>(p, words, kind);
  CHECK(cudaStreamSynchronize(stream));
  return (T *)p;
}

static uint32_t number(const uint32_t *p) {
  uint32_t v;
  CHECK(cudaMemcpy(&v, p, 4, cudaMemcpyDeviceToHost));
  return v;
}

template <class F, class S> static void measure(const char *name, F op, S sum) {
  int reps = n > (100 << 20) ? 2 : n > (2 << 20) ? 4 : 20;
  void *tmp = nullptr;
  size_t bytes = 0;
  CHECK(op(tmp, bytes));
  CHECK(cudaMalloc(&tmp, bytes ? bytes : 1));
  CHECK(op(tmp, bytes));
  CHECK(cudaStreamSynchronize(stream));
  cudaGraph_t g = nullptr;
  cudaGraphExec_t x = nullptr;
  if (capture) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < reps; i++) CHECK(op(tmp, bytes));
    CHECK(cudaStreamEndCapture(stream, &g));
    CHECK(cudaGraphInstantiate(&x, g, 0));
  }
  auto launch = [&] {
    if (capture) CHECK(cudaGraphLaunch(x, stream));
    else for (int i = 0; i < reps; i++) CHECK(op(tmp, bytes));
  };
  for (int i = 0; i < 3; i++) launch();
  CHECK(cudaStreamSynchronize(stream));
  std::vector<float> t;
  for (int i = 0; i < runs; i++) {
    CHECK(cudaEventRecord(evA, stream));
    launch();
    CHECK(cudaEventRecord(evB, stream));
    CHECK(cudaStreamSynchronize(stream));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, evA, evB));
    t.push_back(ms * 1000 / reps);
  }
  std::sort(t.begin(), t.end());
  std::printf("%s %d %.2f %016llx\n", name, n, t[t.size() / 2], (unsigned long long)sum());
  if (capture) {
    CHECK(cudaGraphExecDestroy(x));
    CHECK(cudaGraphDestroy(g));
  }
  CHECK(cudaFree(tmp));
  for (void *p : owned) CHECK(cudaFree(p));
  owned.clear();
}

int main(int argc, char **argv) {
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&evA));
  CHECK(cudaEventCreate(&evB));
  CHECK(cudaMalloc(&sumD, 8));
  n = std::atoi(argv[1]);
#if PART == 1
  { auto in = make<uint32_t>(n, 0), out = make<uint32_t>(n, -1);
    measure("scan_u32", [&](void *t, size_t &b) { return cub::DeviceScan::InclusiveSum(t, b, in, out, n, stream); }, [&] { return checksum(out, n); }); }
  { auto in = make<float>(n, 1), out = make<float>(n, -1);
    measure("scan_f32", [&](void *t, size_t &b) { return cub::DeviceScan::InclusiveSum(t, b, in, out, n, stream); }, [&] { return checksum(out, n); }); }
  { auto in = make<long long>((size_t)n * 2, 0), out = make<long long>((size_t)n * 2, -1);
    measure("scan_i64", [&](void *t, size_t &b) { return cub::DeviceScan::InclusiveSum(t, b, in, out, n, stream); }, [&] { return checksum(out, (size_t)n * 2); }); }
  { auto in = make<Box>((size_t)n * 4, 1), out = make<Box>((size_t)n * 4, -1);
    measure("scan_struct", [&](void *t, size_t &b) { return cub::DeviceScan::InclusiveScan(t, b, in, out, Union{}, n, stream); }, [&] { return checksum(out, (size_t)n * 4); }); }
#elif PART == 2
  { auto in = make<uint32_t>(n, 0), out = make<uint32_t>(1, -1);
    measure("reduce_u32", [&](void *t, size_t &b) { return cub::DeviceReduce::Sum(t, b, in, out, n, stream); }, [&] { return checksum(out, 1); }); }
  { auto in = make<long long>((size_t)n * 2, 0), out = make<long long>(2, -1);
    measure("reduce_i64", [&](void *t, size_t &b) { return cub::DeviceReduce::Sum(t, b, in, out, n, stream); }, [&] { return checksum(out, 2); }); }
  { auto in = make<Box>((size_t)n * 4, 1), out = make<Box>(4, -1);
    measure("reduce_struct", [&](void *t, size_t &b) { return cub::DeviceReduce::Reduce(t, b, in, out, n, Union{}, Box{1e30f, -1e30f, 0}, stream); }, [&] { return checksum(out, 4); }); }
  { auto in = make<uint32_t>(n, 0), out = make<uint32_t>(n, -1), count = make<uint32_t>(1, -1);
    measure("select", [&](void *t, size_t &b) { return cub::DeviceSelect::If(t, b, in, out, count, n, Below{1u << 31}, stream); }, [&] { uint32_t k = number(count); return checksum(out, k) + k; }); }
  { auto in = make<uint32_t>(n, 0), out = make<uint32_t>(n, -1), count = make<uint32_t>(1, -1);
    measure("partition", [&](void *t, size_t &b) { return cub::DevicePartition::If(t, b, in, out, count, n, Below{1u << 31}, stream); }, [&] { uint32_t k = number(count); return checksum(out, k) + k; }); }
#elif PART == 3
  { auto in = make<uint32_t>(n, 0), out = make<uint32_t>(n, -1);
    measure("sort_keys", [&](void *t, size_t &b) { return cub::DeviceRadixSort::SortKeys(t, b, in, out, n, 0, 32, stream); }, [&] { return checksum(out, n); }); }
  { auto in = make<uint32_t>(n, 0), out = make<uint32_t>(n, -1), v = make<uint32_t>(n, 2), outV = make<uint32_t>(n, -1);
    measure("sort_pairs", [&](void *t, size_t &b) { return cub::DeviceRadixSort::SortPairs(t, b, in, out, v, outV, n, 0, 32, stream); }, [&] { return checksum(out, n) + 3 * checksum(outV, n); }); }
#elif PART == 4
  { auto in = make<uint32_t>(n, 3), out = make<uint32_t>(n, -1), count = make<uint32_t>(1, -1);
    measure("unique", [&](void *t, size_t &b) { return cub::DeviceSelect::Unique(t, b, in, out, count, n, stream); }, [&] { uint32_t k = number(count); return checksum(out, k) + k; }); }
  { auto in = make<uint32_t>(n, 3), out = make<uint32_t>(n, -1), len = make<uint32_t>(n, -1), count = make<uint32_t>(1, -1);
    measure("run_lengths", [&](void *t, size_t &b) { return cub::DeviceRunLengthEncode::Encode(t, b, in, out, len, count, n, stream); }, [&] { uint32_t k = number(count); return checksum(out, k) + 3 * checksum(len, k) + k; }); }
  { auto in = make<uint32_t>(n, 3), v = make<uint32_t>(n, 0), out = make<uint32_t>(n, -1), sums = make<uint32_t>(n, -1), count = make<uint32_t>(1, -1);
    measure("reduce_by_key", [&](void *t, size_t &b) { return cub::DeviceReduce::ReduceByKey(t, b, in, out, v, sums, count, cuda::std::plus<uint32_t>{}, n, stream); }, [&] { uint32_t k = number(count); return checksum(out, k) + 3 * checksum(sums, k) + k; }); }
  { auto in = make<uint32_t>(n, 0); auto counts = make<unsigned long long>(512, -1);
    measure("histogram_u32", [&](void *t, size_t &b) { return cub::DeviceHistogram::HistogramEven(t, b, in, counts, 257, 0u, 1u << 31, n, stream); }, [&] { return checksum(counts, 512); }); }
  { auto in = make<float>(n, 1); auto counts = make<unsigned long long>(2000, -1);
    measure("histogram_f32", [&](void *t, size_t &b) { return cub::DeviceHistogram::HistogramEven(t, b, in, counts, 1001, -1.5f, 1.5f, n, stream); }, [&] { return checksum(counts, 2000); }); }
#elif PART == 5
  { auto in = make<uint32_t>(n, 0), out = make<uint32_t>(n, -1);
    measure("merge_sort", [&](void *t, size_t &b) { return cub::DeviceMergeSort::StableSortKeysCopy(t, b, in, out, n, Up{}, stream); }, [&] { return checksum(out, n); }); }
  { auto in = make<Item>((size_t)n * 2, 0), out = make<Item>((size_t)n * 2, -1);
    measure("merge_struct", [&](void *t, size_t &b) { return cub::DeviceMergeSort::StableSortKeysCopy(t, b, in, out, n, ByKey{}, stream); }, [&] { return checksum(out, (size_t)n * 2); }); }
#elif PART == 6
  { int segments = n / 100; auto in = make<uint32_t>(n, 0), out = make<uint32_t>(segments, -1); auto off = make<unsigned long long>((segments + 1) * 2, 4);
    measure("segmented_reduce", [&](void *t, size_t &b) { return cub::DeviceSegmentedReduce::Sum(t, b, in, out, segments, off, off + 1, stream); }, [&] { return checksum(out, segments); }); }
  capture = false; // it asks the device how many segments are large
  { int segments = n / 100; auto in = make<uint32_t>(n, 0), out = make<uint32_t>(n, -1); auto off = make<unsigned long long>((segments + 1) * 2, 4);
    measure("segmented_sort", [&](void *t, size_t &b) { return cub::DeviceSegmentedSort::SortKeys(t, b, in, out, n, segments, off, off + 1, stream); }, [&] { return checksum(out, (size_t)segments * 100); }); }
#endif
  return 0;
}
