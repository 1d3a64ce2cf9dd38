package nvrtc

import "github.com/purecuda/purecuda/driver"

// Handle is an nvrtcProgram. It is a plain value: copying one copies no ownership,
// and 0 is no program.
type Handle uintptr

// Header is a header that a program includes from memory.
type Header struct {
	Name string // as it stands in the #include directive
	Text string
}

// API is NVRTC: [*Library] calls the real one, and package nvrtctest has one that is
// simulated. Values go in, values come out, and the last result is NVRTC's status; a
// method that this NVRTC lacks returns [ResultSymbolMissing].
//
// The methods are the functions of NVRTC without the prefix nvrtc or nvrtcGet:
// https://docs.nvidia.com/cuda/nvrtc/index.html. All are safe for concurrent use as
// long as a program is used by one goroutine at a time. NVRTC before 11.5 compiles one
// program after the other, under a lock of its own; newer ones compile at the same time.
//
// The interface grows with NVRTC: embed it in your own implementations.
type API interface {
	// Version returns the version as CUDA counts it, 1000*major + 10*minor.
	Version() (driver.Version, Result)

	// Build returns a text that tells builds of the same version apart, such as the
	// name and the size of the library file, or "" where that is not known. It is
	// part of the key of everything that is cached.
	Build() string

	// SupportedArchs returns the architectures that NVRTC compiles for, ascending: 90
	// for compute capability 9.0.
	SupportedArchs() ([]int, Result)

	// CreateProgram makes a program, which DestroyProgram has to free. NVRTC copies
	// the texts. A text with a NUL in it gives ResultInvalidInput.
	CreateProgram(source, name string, headers []Header) (Handle, Result)

	// DestroyProgram frees a program.
	DestroyProgram(program Handle) Result

	// AddNameExpression asks for the lowered name of a kernel or variable. It must
	// come before CompileProgram.
	AddNameExpression(program Handle, expression string) Result

	// CompileProgram compiles, which takes from 10 ms to many seconds. Where stop is not
	// nil, NVRTC asks it at several points whether to give up with ResultCancelled,
	// from any thread; once true it must stay true. NVRTC before 12.8 never asks.
	CompileProgram(program Handle, options []string, stop func() bool) Result

	// ProgramLog returns what the last compile has said.
	ProgramLog(program Handle) (string, Result)

	// PTX returns the PTX text, without a NUL at its end.
	PTX(program Handle) ([]byte, Result)

	// CUBIN returns the machine code. It is empty unless the architecture was real
	// (sm_90 and not compute_90).
	CUBIN(program Handle) ([]byte, Result)

	// LTOIR returns the code for link-time optimisation of a program that was compiled
	// with -dlto. Since NVRTC 12.0.
	LTOIR(program Handle) ([]byte, Result)

	// LoweredName returns the name in the code of a name expression.
	LoweredName(program Handle, expression string) (string, Result)
}
