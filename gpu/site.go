//go:build amd64 || arm64

package gpu

// site tells places on the stack apart: a call in the source, by the way of calls that leads there. It is a hash of where
// the frames return to. runtime.Callers takes a microsecond for it, which each thread of a block would pay.
func site() uint64
