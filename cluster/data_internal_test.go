package cluster

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stuckFile is a file of a mount whose server is away, after some bytes.
type stuckFile struct {
	data  io.Reader
	until chan struct{}
}

func (f *stuckFile) Read(p []byte) (int, error) {
	if n, _ := f.data.Read(p); n > 0 {
		return n, nil
	}
	<-f.until
	for i := range p {
		p[i] = 0xff
	}
	return len(p), nil
}

func (f *stuckFile) Close() error { return nil }

// TestDeadMount reads files that do not answer: ctx ends each, nothing is written to their memory later, and they are limited.
func TestDeadMount(t *testing.T) {
	s := &source{reads: make(chan struct{}, 2)}
	var all [][]byte
	back := make(chan struct{})
	for name, open := range map[string]func() (io.ReadCloser, error){
		"open": func() (io.ReadCloser, error) { <-back; return nil, io.ErrUnexpectedEOF },
		"read": func() (io.ReadCloser, error) { return &stuckFile{bytes.NewReader([]byte{1, 2, 3}), back}, nil },
	} {
		into := make([]byte, 10)
		all = append(all, into)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		err := s.readFile(ctx, into, open)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
	}
	into := make([]byte, 10)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := s.readFile(ctx, into, func() (io.ReadCloser, error) { assert.Fail(t, "there are two already"); return nil, io.EOF })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "other reads")
	close(back)
	require.Eventually(t, func() bool { return len(s.reads) == 0 }, time.Minute, time.Millisecond)
	for _, into := range all {
		assert.NotContains(t, into, byte(0xff))
	}
	require.NoError(t, s.readFile(context.Background(), into[:3], func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte{1, 2, 3})), nil }))
	assert.Equal(t, []byte{1, 2, 3}, into[:3])
}
