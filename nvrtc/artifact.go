package nvrtc

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"
)

// Artifact is a compiled program. Those of a [Compiler] may be shared: do not change them.
type Artifact struct {
	Target
	// Code is PTX text without a NUL at its end, a cubin, or LTO-IR.
	Code []byte
	// LoweredNames are the names in the code of the program's name expressions.
	LoweredNames map[string]string
	// Log is what NVRTC said: warnings, or "".
	Log string
	// CompileTime is how long NVRTC took, even if it was in another process.
	CompileTime time.Duration
	// Cached says that the image was read from the disk cache.
	Cached bool
}

// encode is the image in a file of the cache: lengths and texts. What the key of the
// file says, the target, is not in it.
func (i *Artifact) encode() []byte {
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	b := binary.AppendUvarint(nil, uint64(i.CompileTime))
	b = text(b, i.Log)
	b = binary.AppendUvarint(b, uint64(len(i.LoweredNames)))
	for _, expression := range slices.Sorted(maps.Keys(i.LoweredNames)) {
		b = text(text(b, expression), i.LoweredNames[expression])
	}
	return append(b, i.Code...)
}

// decodeArtifact reads what encode wrote, and false for anything else.
func decodeArtifact(b []byte, t Target) (*Artifact, bool) {
	ok := true
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			ok = false
			return 0
		}
		b = b[n:]
		return v
	}
	text := func() string {
		n := number()
		if n > uint64(len(b)) {
			ok = false
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	i := &Artifact{Target: t, Cached: true, CompileTime: time.Duration(min(number(), math.MaxInt64)), Log: text()}
	if count := number(); count > 0 && ok {
		i.LoweredNames = map[string]string{}
		for ; count > 0 && ok; count-- {
			expression := text()
			i.LoweredNames[expression] = text()
		}
	}
	i.Code = b
	return i, ok && len(b) > 0
}
