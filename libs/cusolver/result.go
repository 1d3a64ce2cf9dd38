package cusolver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// What a routine finds wrong with the numbers: targets of errors.Is for what [Result.Wait] returns.
var (
	ErrNotPositiveDefinite = errors.New("the matrix is not positive definite")
	ErrSingular            = errors.New("the matrix is singular")
	ErrNotConverged        = errors.New("the iteration did not converge")
)

// Result tells how a call went, once the device has run it. One that nobody waits for is left to the
// garbage collector.
//
// The Result of a call that was captured is about the last launch of the graph: each Wait asks again.
type Result struct {
	h     *Handle
	mu    sync.Mutex
	waits []wait // nothing is left after Wait, unless it was captured
	err   error
}

// BatchError says which matrices of a batch failed. It wraps the error of the first.
type BatchError struct {
	Count    int   // matrices of the batch
	Matrices []int // the numbers of those that failed, from 0 on, in rising order
	Err      error // of the first of them
}

func (e *BatchError) Error() string {
	if e == nil || len(e.Matrices) == 0 {
		return "no matrix failed"
	}
	return fmt.Sprintf("%d of %d matrices failed, the first is number %d: %v", len(e.Matrices), e.Count, e.Matrices[0], e.Err)
}

// Unwrap returns the error of the first matrix that failed.
func (e *BatchError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// failures is what the numbers mean that a routine leaves behind, one for each matrix.
func (r Routine) failures(info []int32) error {
	if r < PotrfBatched || r == PotrsBatched {
		return r.failure(info[0])
	}
	return Failures(r, info)
}

// Failures is nil, or a [*BatchError] with the matrices whose number in info is not 0. info is what a routine for many
// matrices leaves behind.
func Failures(r Routine, info []int32) error {
	e := &BatchError{Count: len(info)}
	for i, n := range info {
		if n == 0 {
			continue
		}
		if e.Err == nil {
			e.Err = r.failure(n)
		}
		e.Matrices = append(e.Matrices, i)
	}
	if e.Err == nil {
		return nil
	}
	return e
}

// wait is a routine whose end is not known.
type wait struct {
	routine  Routine
	info     *runtime.Ref[int32]
	home     *kept[int32] // where info goes after Wait
	count    int          // of the numbers in info
	captured bool         // a graph writes info
}

// unless is r, if there is no error.
func (r *Result) unless(err error) (*Result, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Wait waits for the work on the stream of the handle, and returns what was wrong with the numbers: the error names the
// routine and the place. It returns that again when it is called again, and is safe for concurrent use. When ctx ends first it
// returns ctx's cause.
func (r *Result) Wait(ctx context.Context) error {
	if r == nil {
		return wrong("Wait of a Result that is nil: the call has failed")
	}
	r.mu.Lock()
	waits, known := r.waits, r.err
	r.mu.Unlock()
	var found []error
	for _, w := range waits {
		info, err := runtime.DownloadNew(ctx, r.h.s, w.info.Slice(0, w.count))
		if err != nil {
			return r.after(err)
		}
		found = append(found, w.routine.failures(info))
	}
	switch {
	case len(waits) == 0:
		return known
	case waits[0].captured:
		return errors.Join(found...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waits) > 0 {
		r.waits, r.err = nil, errors.Join(found...)
		for _, w := range waits {
			r.err = errors.Join(r.err, w.home.put(w.info))
		}
	}
	return r.err
}

// after is what to return where memory could not be read: another Wait may have closed it.
func (r *Result) after(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waits) == 0 {
		return r.err
	}
	return err
}

// failure is what the number means that a routine leaves behind. Rows are counted from 0.
func (r Routine) failure(info int32) error {
	kind, cause, where := driver.ErrInvalidArgument, error(nil), ""
	switch {
	case info == 0:
		return nil
	case info < 0:
		kind, cause, where = driver.ErrDriverCallFailed, StatusInvalidValue, fmt.Sprintf("argument %d", -info)
	case r == Potrf || r == PotrfBatched:
		cause, where = ErrNotPositiveDefinite, fmt.Sprintf("row %d", info-1)
	case r == Getrf || r == GetrfBatched || r == GetriBatched || r == GelsBatched:
		cause, where = ErrSingular, fmt.Sprintf("element %d of the diagonal of the factor is 0", info-1)
	case r == SyevjBatched:
		kind, cause, where = driver.ErrDriverCallFailed, ErrNotConverged, fmt.Sprintf("info %d", info)
	case r == Syevd:
		kind, cause, where = driver.ErrDriverCallFailed, ErrNotConverged, fmt.Sprintf("%d elements beside the diagonal are left", info)
	case r == Gesvd:
		kind, cause, where = driver.ErrDriverCallFailed, ErrNotConverged, fmt.Sprintf("%d elements above the diagonal are left", info)
	default:
		kind, cause, where = driver.ErrDriverCallFailed, StatusImpossibleValue, fmt.Sprintf("info %d", info)
	}
	return driver.Errorf(kind, "%v: %w: %s", r, cause, where)
}
