package contain

import (
	"io"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDo(t *testing.T) {
	assert.NoError(t, Do(func() error { return nil }))
	assert.Equal(t, io.EOF, Do(func() error { return io.EOF }))

	var panicked *PanicError
	err := Do(func() error { panic("as it likes") })
	require.ErrorAs(t, err, &panicked)
	assert.EqualError(t, err, "panic: as it likes")
	assert.Contains(t, string(panicked.Stack), "TestDo")
	assert.ErrorIs(t, Do(func() error { panic(io.EOF) }), io.EOF)
	assert.Error(t, Do(func() error { panic(nil) }))
	var f func() error
	assert.Error(t, Do(f))
}

// done is called for a function that ends the goroutine, and the goroutine ends.
func TestGoexit(t *testing.T) {
	var err error
	returned := false
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Call(func() error { goruntime.Goexit(); return nil }, func(failed error) { err = failed })
		returned = true
	}()
	<-ended
	assert.ErrorContains(t, err, "Goexit")
	assert.False(t, returned)
}

func TestHook(t *testing.T) {
	ran := false
	assert.NoError(t, Hook(func() { ran = true }))
	assert.True(t, ran)
	assert.EqualError(t, Hook(func() { panic("at the disco") }), "panic: at the disco")
	assert.ErrorContains(t, Hook(goruntime.Goexit), "Goexit")
}
