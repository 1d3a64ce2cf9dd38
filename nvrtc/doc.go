// Package nvrtc compiles CUDA C++ while the program runs, with NVIDIA's NVRTC, which is
// loaded then. A program that imports this package builds and starts without it, and one
// that ships its kernels as PTX never needs it.
//
//	lib, err := nvrtc.Open()
//	if errors.Is(err, driver.ErrLibraryUnavailable) {
//		return usePTX() // no NVRTC here; the error says what to install
//	}
//	compiler, err := nvrtc.NewCompiler(lib, nvrtc.Config{})
//	target, err := compiler.TargetFor(90, driverVersion) // of the device: 9.0
//	image, err := compiler.Compile(ctx, nvrtc.Program{
//		Source:          source,
//		NameExpressions: []string{"scale<float>"},
//	}, target)
//	module, err := c.LoadModule(runtime.Image{Arch: image.Arch, Code: image.Code})
//	kernel, err := module.Kernel(image.LoweredNames["scale<float>"])
//
// # Layers
//
// [API] is NVRTC, function by function: [*Library] is the real one, and package nvrtctest
// beside this one has one for tests. [Compile] runs a [Program] through it once. A
// [Compiler] does so at most once for each program and target, across processes: it keeps
// images on disk. docs/caching.md says what is kept where, and for how long it is right.
//
// # What is compiled to
//
// [TargetFor] chooses machine code for the device where NVRTC knows it, and PTX
// otherwise. The architecture and the C++ standard are always given to NVRTC, whose own
// defaults depend on its version. Other defaults are nvcc's: the contraction of a*b+c is
// on, and [Options.NoFMA] turns it off where results have to be the CPU's bit for
// bit.
//
// # Linking
//
// A program is one translation unit. There are two ways to have several sources. One source includes the others, which
// [Program.Headers] can hold. Or runtime.Context.LinkModule makes one module of the code of each: relocatable PTX or machine
// code, or [LTOIR], which is optimised as a whole. A [Linker] links the latter with NVIDIA's nvJitLink, also where there is no GPU.
//
// # Headers
//
// NVRTC has no include path of its own. Headers come from [Program.Headers], in memory, and
// from [Options.IncludePaths], say the include folder of a CUDA toolkit. Without include
// paths no file is read.
//
// # Errors
//
// Errors are [*driver.Error] values; match their kind with errors.Is:
//
//	driver.ErrLibraryUnavailable       no NVRTC; also an ErrUnsupported
//	driver.ErrUnsupported              NVRTC cannot make the target
//	driver.ErrDriverLibraryLoadFailed  NVRTC is there and does not load
//	driver.ErrKernelCompileFailed      the log, the numbered lines, options and architecture
//	driver.ErrInvalidArgument          a program or target that cannot be
//
// Behind one that NVRTC itself returned is its [Result].
//
// # Concurrency
//
// Everything is safe for concurrent use. A compile takes from 10 ms to many seconds on the
// thread that calls, and NVRTC compiles several programs at the same time from 11.5 on.
package nvrtc

//go:generate go run -C .. ./driver/internal/gen nvrtc
