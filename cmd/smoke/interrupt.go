package main

import (
	"context"
	"sync"
	"time"

	"github.com/purecuda/purecuda/internal/job"
)

// leaveAfter is how long an interrupted job may take to stop in order. After that it is abandoned: a
// kernel with many rounds runs for minutes, and a call of a lost file system never returns. The end
// of the process frees everything.
const leaveAfter = 500 * time.Millisecond

// orLeave returns the result of f, or false if ctx has ended and f still runs. f then runs until the
// process ends.
func orLeave[T any](ctx context.Context, f func() T) (result T, ok bool) {
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case result = <-done:
		return result, true
	case <-ctx.Done():
	}
	select {
	case result = <-done:
		return result, true
	case <-time.After(leaveAfter):
		return result, false
	}
}

// left returns the error of a job that was abandoned.
func left(ctx context.Context) error {
	return &job.Error{Kind: job.Canceled, Detail: "left while it was under way", Err: context.Cause(ctx)}
}

// account counts what was hashed. It passes the calls of a job to its bar and list, until the job is
// abandoned.
type account struct {
	mu            sync.Mutex
	closed        bool
	chunks, bytes int64
	bar           *progress
	sink          job.Sink // nil: none
	began         time.Time
}

func (a *account) add(chunks, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.chunks, a.bytes = a.chunks+chunks, a.bytes+bytes
	if !a.closed {
		a.bar.add(bytes)
	}
}

// Digests makes an account the sink of a job.
func (a *account) Digests(path string, first int64, digests []job.Digest) error {
	a.mu.Lock()
	closed := a.closed
	a.mu.Unlock()
	if closed || a.sink == nil {
		return nil
	}
	// A pipe that nobody reads holds this up, and close does not wait for it.
	return a.sink.Digests(path, first, digests)
}

// close ends the account and returns what was hashed.
func (a *account) close() (chunks, bytes int64, elapsed time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.bar.clear()
	return a.chunks, a.bytes, time.Since(a.began)
}
