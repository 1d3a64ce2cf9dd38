// Package nvrtctest is a simulated NVRTC for tests: it is to package nvrtc what
// net/http/httptest is to HTTP. A [Compiler] implements [nvrtc.API] in plain Go. It
// compiles nothing: it gives the PTX that a test has laid down for a source.
//
//	sim := nvrtctest.ForTest(t, nvrtctest.Config{})
//	sim.Add(source, ptx)
//	compiler, err := nvrtc.NewCompiler(sim, nvrtc.Config{CacheDir: t.TempDir()})
//
// Machine code is the same PTX: that is what the simulated driver of package
// driver/drivertest runs.
//
// Everything is safe for concurrent use.
package nvrtctest
