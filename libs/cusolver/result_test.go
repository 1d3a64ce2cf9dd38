package cusolver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

func TestWhatANumberMeans(t *testing.T) {
	for _, c := range []struct {
		routine Routine
		info    int32
		kind    driver.Kind
		is      error
		text    string
	}{
		{Potrf, 3, driver.ErrInvalidArgument, ErrNotPositiveDefinite, "cusolverDnXpotrf: the matrix is not positive definite: row 2"},
		{Getrf, 1, driver.ErrInvalidArgument, ErrSingular, "cusolverDnXgetrf: the matrix is singular: element 0 of the diagonal of the factor is 0"},
		{Syevd, 4, driver.ErrDriverCallFailed, ErrNotConverged, "cusolverDnXsyevd: the iteration did not converge: 4 elements beside the diagonal are left"},
		{Gesvd, 4, driver.ErrDriverCallFailed, ErrNotConverged, "cusolverDnXgesvd: the iteration did not converge: 4 elements above the diagonal are left"},
		{Getrf, -5, driver.ErrDriverCallFailed, StatusInvalidValue, "cusolverDnXgetrf: CUSOLVER_STATUS_INVALID_VALUE (3): an argument is not valid: argument 5"},
		{PotrfBatched, 3, driver.ErrInvalidArgument, ErrNotPositiveDefinite, "cusolverDnPotrfBatched: the matrix is not positive definite: row 2"},
		{GelsBatched, 1, driver.ErrInvalidArgument, ErrSingular, "cublasGelsBatched: the matrix is singular: element 0"},
		{SyevjBatched, 5, driver.ErrDriverCallFailed, ErrNotConverged, "cusolverDnSyevjBatched: the iteration did not converge: info 5"},
		{Ormqr, 5, driver.ErrDriverCallFailed, StatusImpossibleValue, "info 5"},
	} {
		err := c.routine.failure(c.info)
		assert.ErrorIs(t, err, c.kind)
		assert.ErrorIs(t, err, c.is)
		assert.ErrorContains(t, err, c.text)
	}
	for r := Potrf; r <= Gesvd; r++ {
		assert.NoError(t, r.failure(0))
	}
}

func TestWhichMatrices(t *testing.T) {
	assert.NoError(t, Failures(PotrfBatched, []int32{0, 0}))
	assert.NoError(t, Failures(PotrfBatched, nil))
	err := Failures(PotrfBatched, []int32{0, 3, 0, 1})
	var batch *BatchError
	require.ErrorAs(t, err, &batch)
	assert.Equal(t, []int{1, 3}, batch.Matrices)
	assert.Equal(t, 4, batch.Count)
	require.ErrorIs(t, err, ErrNotPositiveDefinite)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.EqualError(t, err, "2 of 4 matrices failed, the first is number 1: InvalidArgument: cusolverDnPotrfBatched: the matrix is not positive definite: row 2")
	for _, none := range []*BatchError{nil, {}} {
		assert.EqualError(t, none, "no matrix failed")
		assert.NoError(t, none.Unwrap())
	}
}
