//go:build !amd64 && !arm64

package gpu

import "runtime"

// site tells places on the stack apart: a call in the source, by the way of calls that leads there.
func site() (h uint64) {
	var pcs [256]uintptr
	for _, pc := range pcs[:runtime.Callers(2, pcs[:])] {
		h = (h + uint64(pc)) * 0x9E3779B97F4A7C15
	}
	return h
}
