package callsite_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/internal/callsite"
)

// What is below internal/ is a library, this test as well.
func TestOutside(t *testing.T) {
	var stack [32]uintptr // ends with zeros
	once := sync.OnceFunc(func() { runtime.Callers(1, stack[:]) })
	_ = strings.Map(func(r rune) rune { once(); return r }, "x")
	assert.Regexp(t, `^strings\.go:\d+$`, callsite.Outside(stack[:], callsite.Package("arena")), "neither here nor in Go's sync")
	assert.Empty(t, callsite.Outside(nil, ""))
	assert.Empty(t, callsite.Outside(make([]uintptr, 4), ""))
}

func TestOutsideWhereAllIsLibrary(t *testing.T) {
	var stack [1]uintptr
	runtime.Callers(0, stack[:]) // runtime.Callers itself
	assert.Regexp(t, `^extern\.go:\d+$`, callsite.Outside(stack[:], callsite.Package("arena")))
	assert.Empty(t, callsite.Outside(stack[:], "runtime."))
}
