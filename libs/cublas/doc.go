// Package cublas computes with NVIDIA's cuBLAS and cuBLASLt, without cgo. It loads them while the program runs.
//
//	lib, err := cublas.Open()
//	if errors.Is(err, driver.ErrLibraryUnavailable) {
//		return multiplyOnTheCPU() // the error names every place, and what to install
//	}
//	if err != nil {
//		return err
//	}
//	h, err := cublas.New(lib, stream, cublas.Options{})
//	if err != nil {
//		return err
//	}
//	defer h.Close()
//	err = cublas.Gemm(h, 1, cublas.Dense(a, m, k), cublas.Dense(b, k, n), 0, cublas.Dense(c, m, n))
//
// # Matrices
//
// A [Matrix] is a view of a runtime.Ref by rows, as Go and gonum have it; T is the transposed view of the same
// memory. cuBLAS itself counts by columns: this package turns the operands around, which costs nothing. Shapes
// are compared with the memory before anything runs.
//
// # Order
//
// A [Handle] belongs to a stream. Its calls put work there and return, ordered with Refs as a launch is: what
// they use may be closed behind them. They can be recorded by Stream.Capture. The workspace is memory of the
// context, so that cuBLAS allocates nothing in a call.
//
// # Errors
//
// Errors are [*driver.Error] values. Their kinds are driver.ErrInvalidArgument for shapes, driver.ErrLibraryUnavailable for
// no cuBLAS, driver.ErrUnsupported for what this device or shape does not have, and driver.ErrSymbolMissing for a cuBLAS
// that is too old. Behind one that cuBLAS itself returned is its [Status].
//
// # Tests
//
// [API] is cuBLAS, call by call: [*Library] is the real one, and package cublastest has a simulated one. Package gonumblas
// puts cuBLAS behind gonum.
package cublas

//go:generate go run -C ../.. ./driver/internal/gen libs/cublas
