package nvrtc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
)

// unique makes a program that nobody has compiled, so that nothing in it is the same as
// before to the cache that NVRTC itself has since 12.9. (Older ones refuse --no-cache.)
func unique(p nvrtc.Program, n int) nvrtc.Program {
	now := time.Now().UnixNano()
	p.Source += fmt.Sprintf("\nextern \"C\" __global__ void unique_%d_%d(long long *x) { *x = %dll; }\n", now, n, now)
	return p
}

// benchmarked are the programs of the benchmarks.
var benchmarked = []struct {
	name    string
	program func(b *testing.B) nvrtc.Program
}{
	{"small", func(*testing.B) nvrtc.Program { return scaleProgram }},
	{"headers", func(b *testing.B) nvrtc.Program { return standardHeaders(includes(b)) }},
}

// BenchmarkCompile is the first use: a compile to machine code, and writing the entry.
func BenchmarkCompile(b *testing.B) {
	for _, c := range benchmarked {
		b.Run(c.name, func(b *testing.B) {
			lib := nvrtctest.OpenReal(b)
			p := c.program(b)
			compiler, err := nvrtc.NewCompiler(lib, nvrtc.Config{CacheDir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			for n := 0; b.Loop(); n++ {
				if _, err := compiler.Compile(b.Context(), unique(p, n), sm90); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkArtifactHit is the second use: the key, with all headers that may be included,
// and reading the entry.
func BenchmarkArtifactHit(b *testing.B) {
	for _, c := range benchmarked {
		b.Run(c.name, func(b *testing.B) {
			lib := nvrtctest.OpenReal(b)
			p := c.program(b)
			compiler, err := nvrtc.NewCompiler(lib, nvrtc.Config{CacheDir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := compiler.Compile(b.Context(), p, sm90); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				image, err := compiler.Compile(b.Context(), p, sm90)
				if err != nil || !image.Cached {
					b.Fatal("no hit", err)
				}
			}
		})
	}
}
