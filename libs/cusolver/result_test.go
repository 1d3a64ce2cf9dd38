package cusolver

import (
	"testing"

	"github.com/stretchr/testify/assert"

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
