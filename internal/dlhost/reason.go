//go:build linux && !android && (amd64 || arm64) && !cgo && !purecuda_nohost

package dlhost

import (
	"strconv"
	"strings"
	"syscall"

	// purego defines the names that the entry point takes back. Without its
	// definitions the linker lets nobody but package syscall refer to them.
	_ "github.com/ebitengine/purego"
)

// cause is why no loader is used. The entry point stores its number, because it has no
// memory to build a sentence in.
type cause uint32

const (
	causeNone      cause = iota
	causeAsked           // PURECUDA_LOADER=static
	causeNoGPU           // no sign of a GPU
	causeNoLoader        // the loader cannot be opened: errno
	causeMalformed       // the loader is no ELF file of this processor that could be mapped
	causeNotGlibc        // there is a loader, and it is not glibc's
	causeNoLibc          // glibc's loader without the rest of it
	causeNoMap           // the loader cannot be mapped: errno
	causeKernel          // the kernel did not tell what the loader has to know
	causeHeaders         // too many program headers to copy
)

// record is what the entry point found. It writes before the Go runtime starts, and
// nobody writes afterwards.
var record struct {
	mode  Mode
	cause cause
	errno uintptr
}

func hasLoader() bool { return record.mode != Static }

func current() Status {
	s := Status{Mode: record.mode, Reason: record.cause.String()}
	if record.errno != 0 {
		s.Reason += ": " + syscall.Errno(record.errno).Error()
	}
	return s
}

func (c cause) String() string {
	switch c {
	case causeNone:
		return ""
	case causeAsked:
		return Variable + "=static"
	case causeNoGPU:
		return "no sign of an NVIDIA GPU (none of " + list(hints) + "); " + Variable + "=host would use the loader all the same"
	case causeNoLoader:
		return "glibc's loader " + list(loaderPath) + " cannot be opened"
	case causeMalformed:
		return list(loaderPath) + " is no loader for this processor"
	case causeNotGlibc:
		return list(loaderPath) + " is not glibc's loader (musl and gcompat have theirs at the same place)"
	case causeNoLibc:
		return "glibc is not complete: none of " + list(libraryDirs) + " has " + list(libraryNames) + " together where the loader would look"
	case causeNoMap:
		return "glibc's loader " + list(loaderPath) + " cannot be mapped"
	case causeKernel:
		return "the kernel did not tell where the program headers are"
	case causeHeaders:
		return "the program has more program headers than there is room for"
	}
	return "unknown cause " + strconv.Itoa(int(c))
}

// list is a list of the entry point in words.
func list(paths string) string {
	return strings.ReplaceAll(strings.TrimRight(paths, "\x00"), "\x00", ", ")
}
