package nvrtc

import (
	"fmt"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// Kind is a form of compiled code.
type Kind uint8

const (
	// PTX is text for a virtual architecture. The driver compiles it for the device, and
	// reads it if it is not older than the NVRTC that wrote it.
	PTX Kind = iota + 1
	// CUBIN is machine code for one architecture.
	CUBIN
	// LTOIR is code that a [Linker] optimises as a whole. Since NVRTC 12.0.
	LTOIR
)

func (k Kind) String() string {
	switch k {
	case PTX:
		return "PTX"
	case CUBIN:
		return "cubin"
	case LTOIR:
		return "LTO-IR"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Target is what a program is compiled to.
type Target struct {
	Kind Kind
	// Arch is the compute capability, 90 for 9.0.
	Arch int
	// Suffix is "a" for code that uses everything of this one architecture and runs on
	// no other, "f" for code that runs on its family, or "". It is never chosen
	// unasked.
	Suffix string
}

// String is the architecture in NVRTC's words: "sm_90" is machine code, "compute_90" PTX
// or LTO-IR.
func (t Target) String() string {
	if t.Kind == CUBIN {
		return fmt.Sprintf("sm_%d%s", t.Arch, t.Suffix)
	}
	return fmt.Sprintf("compute_%d%s", t.Arch, t.Suffix)
}

// options are what makes NVRTC compile to the target. The architecture is always given:
// NVRTC's default depends on its version.
func (t Target) options() []string {
	list := []string{"--gpu-architecture=" + t.String()}
	if t.Kind == LTOIR {
		list = append(list, "-dlto")
	}
	return list
}

func (t Target) check() error {
	ok := t.Kind >= PTX && t.Kind <= LTOIR && t.Arch >= 10 && slices.Contains([]string{"", "a", "f"}, t.Suffix)
	if !ok {
		return driver.Errorf(driver.ErrInvalidArgument, "the target %v, arch %d, suffix %q is none", t.Kind, t.Arch, t.Suffix)
	}
	return nil
}

// TargetFor chooses what to compile to for a device. It is machine code if NVRTC knows exactly its
// compute capability (90 for 9.0), or else PTX of the highest one that it knows below. Machine code
// is preferred because a driver may be older than NVRTC and refuse its PTX. It accepts machine code
// of every NVRTC of its own major version, and of older ones. Of a newer major version nothing is
// promised: loading the image tells.
//
// The error is of kind [driver.ErrUnsupported] if NVRTC knows nothing that the device
// could run, or only PTX that is newer than the driver's version (0 if that is unknown).
func TargetFor(api API, device int, version driver.Version) (Target, error) {
	known, err := abilitiesOf(api)
	if err != nil {
		return Target{}, err
	}
	return known.target(device, version)
}

func (f *facts) target(device int, version driver.Version) (Target, error) {
	best := 0
	for _, arch := range f.Archs {
		if arch == device {
			return Target{Kind: CUBIN, Arch: arch}, nil
		}
		if arch < device {
			best = max(best, arch)
		}
	}
	switch {
	case best == 0:
		return Target{}, driver.Errorf(driver.ErrUnsupported, "NVRTC %v compiles for %v, and the device has compute capability %d.%d: install another NVRTC",
			f.Version, f.Archs, device/10, device%10)
	case version != 0 && f.Version > version:
		return Target{}, driver.Errorf(driver.ErrUnsupported, "driver %v cannot read the PTX of NVRTC %v, which has no machine code for compute capability %d.%d: update the driver or install an older NVRTC",
			version, f.Version, device/10, device%10)
	}
	return Target{Kind: PTX, Arch: best}, nil
}
