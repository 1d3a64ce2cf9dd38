// Package nvtx tells a profiler, such as NVIDIA's Nsight Systems, what the program does: ranges with a name on its time line.
//
// Nothing is linked, and where no profiler listens nothing is loaded. A profiler that starts a program sets
// NVTX_INJECTION64_PATH to a library of its own. NVTX 3 is headers only, and what they do is done here: the library is opened,
// and its InitializeInjectionNvtx2 puts the addresses of the profiler's functions into a table.
//
// https://github.com/NVIDIA/NVTX/blob/release-v3/c/include/nvtx3/nvtxDetail/nvtxInit.h
package nvtx
