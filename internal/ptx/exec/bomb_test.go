package exec

import (
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/internal/ptx"
)

// bombs are short sources with large programs.
var bombs = map[string]func() string{
	"variables": func() string {
		return header + repeat(300, func(i int) string { return fmt.Sprintf(".global .b8 a%d<4096>;\n", i) })
	},
	"indirect calls": func() string {
		return header + repeat(1000, func(i int) string { return fmt.Sprintf(".func f%d() { ret; }\n", i) }) +
			repeat(1000, func(i int) string {
				return fmt.Sprintf(".entry k%d() { .reg .b64 %%r; mov.b64 %%r, f0; p: .callprototype _ (); call %%r, p; ret; }\n", i)
			})
	},
	"calls": func() string {
		return header + ".func f() {" + repeat(2000, func(int) string { return "bar.sync 0;" }) + "ret; }\n" +
			repeat(2000, func(i int) string { return fmt.Sprintf(".entry k%d() { call f; ret; }\n", i) })
	},
	"constants": func() string {
		return header + ".func f() { .reg .b64 %r; " + repeat(2000, func(i int) string { return fmt.Sprintf("mov.b64 %%r, %d;", 1000+i) }) + "ret; }\n" +
			repeat(2000, func(i int) string { return fmt.Sprintf(".entry k%d() { call f; ret; }\n", i) })
	},
	"registers": func() string {
		return header + ".func f() { .reg .b64 " + strings.TrimSuffix(repeat(5000, func(i int) string { return fmt.Sprintf("r%d, ", i) }), ", ") + "; ret; }\n" +
			repeat(2000, func(i int) string { return fmt.Sprintf(".entry k%d() { call f; ret; }\n", i) })
	},
	"chains": func() string {
		return header + repeat(5000, func(i int) string {
			return fmt.Sprintf(".func f%d() { call f%d; ret; }\n", i, max(i-1, 0))
		}) + repeat(5000, func(i int) string { return fmt.Sprintf(".entry k%d() { call f4999; ret; }\n", i) })
	},
}

func repeat(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i))
	}
	return b.String()
}

// What a source costs is bounded, whatever it says: bytes that are allocated do not depend on
// how fast the machine is.
func TestBombs(t *testing.T) {
	for name, source := range bombs {
		t.Run(name, func(t *testing.T) {
			src := []byte(source())
			var before, after goruntime.MemStats
			goruntime.ReadMemStats(&before)
			m, err := ptx.Parse(src)
			if err == nil {
				_, err = compileAll(m)
			}
			goruntime.ReadMemStats(&after)
			bytes, objects := after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
			t.Logf("%d bytes of source: %d bytes in %d objects, %v", len(src), bytes, objects, err)
			assert.Error(t, err)
			assert.Less(t, bytes, uint64(256<<20))
			assert.Less(t, objects, uint64(1_000_000))
		})
	}
}

// A module of ordinary shape keeps within the bound: 150 kernels that share 40 functions.
func TestSharedFunctionsFitTheBudget(t *testing.T) {
	src := header + repeat(40, func(i int) string {
		return fmt.Sprintf(".func f%d() { %s ret; }\n", i, repeat(30, func(int) string { return "bar.sync 0;" }))
	}) + repeat(150, func(i int) string {
		return fmt.Sprintf(".entry k%d() { %s ret; }\n", i, repeat(40, func(i int) string { return fmt.Sprintf("call f%d;", i) }))
	})
	m, err := ptx.Parse([]byte(src))
	assert.NoError(t, err)
	_, err = compileAll(m)
	assert.NoError(t, err)
}
