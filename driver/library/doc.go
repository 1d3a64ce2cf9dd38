// Package library opens NVIDIA's libraries while the program runs, without cgo: cuSPARSE, cuDNN, nvJitLink and all others
// that have functions of C. A program that uses it builds and starts where they are absent, and the error then names every
// place that was looked in.
//
// A [Description] says how the files are called and what a program needs of them:
//
//	lib, err := library.Description{
//		Name: "cuSPARSE", Purpose: "multiply sparse matrices", Without: "the CPU has to compute",
//		Install:  "CUDA toolkit 12.0 or newer, or pip install nvidia-cusparse",
//		Variable: "CUSPARSE_PATH", Property: "cusparseGetProperty",
//		Linux: library.Names{Files: []string{"libcusparse.so.12"}, Wheels: []string{"nvidia/cu13/lib", "nvidia/cusparse/lib"}},
//	}.Open()
//	if errors.Is(err, driver.ErrLibraryUnavailable) {
//		return nil // work on the CPU
//	}
//	if err != nil {
//		return err
//	}
//	var handle uintptr
//	err = lib.Call("cusparseCreate", &handle)
//
// Work of a library is ordered with work of package runtime by runtime.Stream.Submit and runtime.Context.NewLibraryHandle:
// docs/libraries.md. Module libs has cuBLAS, cuFFT, cuRAND, cuSOLVER and NCCL with methods for their functions.
package library
