// Package gonumblas puts cuBLAS behind gonum: matrices that are large enough are multiplied on a GPU, everything else on
// the CPU as before. A program without a driver or without cuBLAS computes on the CPU, with the results of gonum.
//
//	b, err := gonumblas.Open(rt, gonumblas.Options{})
//	if err != nil {
//		log.Print("gonum computes on the CPU: ", err) // b works all the same
//	}
//	defer b.Close()
//	blas64.Use(b)
//	blas32.Use(b)
//
// # What runs on the GPU
//
// Gemm, Syrk and Trsm of float32 and float64, from the size [Options.BreakEven] on. The matrices are copied to the device and
// back in each call. So routines that read each element once, which are levels 1 and 2, do not
// gain. Programs whose matrices stay on the device use package cublas itself.
//
// # What differs
//
// Sums are rounded in another order. A product of 0 and NaN is NaN, where gonum skips zeros.
package gonumblas
