package exec

import "fmt"

// UnsupportedError is an instruction that is PTX but that this interpreter does not
// run. It comes from Compile, never from a launch.
type UnsupportedError struct {
	Line        int
	Kernel      string
	Instruction string // name with modifiers: "wgmma.mma_async.sync..."
	Reason      string // may be empty
}

func (e *UnsupportedError) Error() string {
	s := fmt.Sprintf("ptx: line %d: kernel %s: instruction %s is not supported by the interpreter", e.Line, e.Kernel, e.Instruction)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// InvalidError is an instruction that no PTX assembler accepts: wrong operands, wrong
// types, an unknown name. It comes from Compile.
type InvalidError struct {
	Line        int
	Kernel      string
	Instruction string
	Msg         string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("ptx: line %d: kernel %s: %s: %s", e.Line, e.Kernel, e.Instruction, e.Msg)
}

// FaultKind is why a launch ended early. The values are CUresult's.
type FaultKind int

// The fault kinds.
const (
	IllegalAddress     FaultKind = 700
	LaunchTimeout      FaultKind = 702
	Assert             FaultKind = 710
	HardwareStackError FaultKind = 714
	IllegalInstruction FaultKind = 715
	MisalignedAddress  FaultKind = 716
	InvalidPC          FaultKind = 718
	LaunchFailed       FaultKind = 719 // trap
)

var faultNames = map[FaultKind]string{
	IllegalAddress:     "illegal address",
	LaunchTimeout:      "launch timeout",
	Assert:             "device-side assert",
	HardwareStackError: "hardware stack error",
	IllegalInstruction: "illegal instruction",
	MisalignedAddress:  "misaligned address",
	InvalidPC:          "invalid program counter",
	LaunchFailed:       "launch failed",
}

func (k FaultKind) String() string {
	if s, ok := faultNames[k]; ok {
		return s
	}
	return fmt.Sprintf("fault %d", int(k))
}

// Fault is what a kernel did wrong, and where.
type Fault struct {
	Kind    FaultKind
	Kernel  string
	Block   [3]uint32
	Thread  [3]uint32
	Line    int    // of the PTX source
	Address uint64 // generic or within Space
	Size    uint64 // bytes of the access; 0 when the fault is not one of memory
	Space   string // state space of the access
	Write   bool
	Msg     string // more, where there is more to say
}

func (f *Fault) Error() string {
	s := fmt.Sprintf("%s (%d) in kernel %s, block (%d,%d,%d), thread (%d,%d,%d), PTX line %d",
		f.Kind, int(f.Kind), f.Kernel, f.Block[0], f.Block[1], f.Block[2],
		f.Thread[0], f.Thread[1], f.Thread[2], f.Line)
	if f.Size != 0 {
		op := "read"
		if f.Write {
			op = "write"
		}
		s += fmt.Sprintf(": %s of %d bytes at %s address %#x", op, f.Size, f.Space, f.Address)
	}
	if f.Msg != "" {
		s += ": " + f.Msg
	}
	return s
}
