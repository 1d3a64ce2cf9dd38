package contain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// careless is an error that was not made for nil, as most are not.
type careless struct{ cause error }

func (c *careless) Error() string { return c.cause.Error() }
func (c *careless) Unwrap() error { return c.cause }

type unwraps struct{ error }

func (unwraps) Unwrap() error { panic("unwrap") }

type is struct{ error }

func (is) Is(error) bool { panic("is") }

type as struct{ error }

func (as) As(any) bool { panic("as") }

// What f returns or panics with can be asked by errors.Is and errors.As, whatever its methods do.
func TestSound(t *testing.T) {
	for _, bad := range []error{(*careless)(nil), &careless{}, unwraps{io.EOF}, is{io.EOF}, as{io.EOF}, fmt.Errorf("wrapped: %w", unwraps{io.EOF}), errors.Join(io.EOF, is{io.EOF})} {
		for _, f := range []func() error{func() error { return bad }, func() error { panic(bad) }} {
			err := Do(f)
			require.Error(t, err)
			assert.NotErrorIs(t, err, io.ErrNoProgress)
			assert.NotPanics(t, func() { _, _ = errors.AsType[*fs.PathError](err) })
			assert.ErrorContains(t, err, "whose methods panic")
			assert.ErrorContains(t, err, fmt.Sprintf("%T", bad))
		}
	}
	good := fmt.Errorf("wrapped: %w", &careless{io.EOF})
	assert.True(t, Do(func() error { return good }) == good, "others are as they are")
	assert.NoError(t, Sound(nil))
}
