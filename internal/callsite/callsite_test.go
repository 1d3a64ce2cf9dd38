package callsite

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is below internal/ is a library, and so is this test. Tests in a package of their own are programs.
func TestOutside(t *testing.T) {
	var stack [32]uintptr // ends with zeros
	once := sync.OnceFunc(func() { runtime.Callers(1, stack[:]) })
	_ = strings.Map(func(r rune) rune { once(); return r }, "x")
	assert.Regexp(t, `^strings\.go:\d+$`, Outside(stack[:], Package("arena")), "neither here nor in Go's sync")
	assert.Empty(t, Outside(nil, ""))
	assert.Empty(t, Outside(make([]uintptr, 4), ""))
}

func TestOutsideWhereAllIsLibrary(t *testing.T) {
	var stack [1]uintptr
	runtime.Callers(0, stack[:]) // runtime.Callers itself
	assert.Regexp(t, `^extern\.go:\d+$`, Outside(stack[:], Package("arena")))
	assert.Empty(t, Outside(stack[:], "runtime."))
}
