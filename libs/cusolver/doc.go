// Package cusolver solves equations with NVIDIA's cuSOLVER, without cgo. It loads it while the program runs.
//
//	lib, err := cusolver.Open()
//	if err != nil {
//		return err // of driver.ErrLibraryUnavailable: it names every place, and what to install
//	}
//	h, err := cusolver.New(lib, s)
//	if err != nil {
//		return err
//	}
//	defer h.Close()
//	a, b := cublas.Dense(x, n, n), cublas.Dense(y, n, 1)
//	factor, err := cusolver.Cholesky(h, cublas.Lower, a)
//	if err != nil {
//		return err
//	}
//	if _, err := cusolver.CholeskySolve(h, cublas.Lower, a, b); err != nil {
//		return err
//	}
//	return factor.Wait(ctx) // such as: the matrix is not positive definite: row 3
//
// # Matrices
//
// A cublas.Matrix is a view of a runtime.Ref by rows, as Go and gonum have it; its T is the transposed view of the same memory.
// cuSOLVER counts by columns. Where the mathematics allows it, this package gives it the same memory: then its results are
// those of the transposed matrix, and each routine says what they are by rows. A transposed view is memory by columns, and gives
// what LAPACK gives. Where the mathematics does not allow it, a copy on the device is turned around and back: each routine says so.
//
// # Order
//
// A [Handle] belongs to a stream. Its calls put work there, ordered with Refs as a launch is: what they use may be closed
// behind them. Workspaces are memory of the context, which the handle keeps. A call can be captured once one of its shape has
// run, because nothing is allocated in a capture. Some routines of cuSOLVER wait for the device in a call. They cannot be
// recorded: on a stream that is captured they fail with driver.ErrCaptureFailed.
//
// An operand that is written must not overlap another one, which is an error. Rows of one stride may lie between each other.
//
// # Errors
//
// Wrong shapes and the like are errors of the call: [*driver.Error] values, of the kinds of package cublas. What is
// wrong with the numbers is known on the device only: [Result.Wait] returns it. Targets of errors.Is are
// [ErrNotPositiveDefinite], [ErrSingular] and [ErrNotConverged].
//
// # Many small matrices
//
// [CholeskyBatch] and its kin take thousands of matrices of 4 to 64 rows in one call. The error of Wait is a [*BatchError] then.
//
// # Tests
//
// [API] is cuSOLVER, call by call: [*Library] is the real one, and package cusolvertest has a simulated one.
package cusolver

//go:generate go run -C ../.. ./driver/internal/gen libs/cusolver
