// Package curand makes random numbers with NVIDIA's cuRAND, without cgo. It loads it while the program runs.
//
//	lib, err := curand.Open()
//	if err != nil {
//		return err // of driver.ErrLibraryUnavailable: it names every place, and what to install
//	}
//	g, err := curand.New(lib, s, curand.Options{Seed: 1234})
//	if err != nil {
//		return err
//	}
//	defer g.Close()
//	return g.Normal(x, 0, 1) // x is a *runtime.Ref[float32]
//
// # The same numbers
//
// A seed, an offset and the calls say what the numbers are. With [Philox] and the ordering [Legacy], which are what the zero
// [Options] mean, they are the same on all devices and with all versions of cuRAND. [CPU] makes them in plain Go, for
// tests and for machines without a GPU. Those of a normal distribution differ by rounding.
//
// # Order
//
// A [Generator] belongs to a stream. Its calls put work there and return, ordered with Refs as a launch is: what
// they fill may be closed behind them. They can be recorded by Stream.Capture. NVIDIA does not say whether a replay goes on in
// the sequence or gives the same numbers again: do not rely on either.
//
// # Errors
//
// Errors are [*driver.Error] values, of the kinds of package cublas. Behind one that cuRAND itself returned is its
// [Status].
//
// # Tests
//
// [API] is cuRAND, call by call: [*Library] is the real one, and package curandtest has a simulated one, whose numbers are
// those of [CPU].
package curand

//go:generate go run -C ../.. ./driver/internal/gen libs/curand
