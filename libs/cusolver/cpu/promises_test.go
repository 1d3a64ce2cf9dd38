package cpu_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/promises"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver/cpu"
)

func TestPromises(t *testing.T) {
	matrices := func() cpu.Batch[float64] {
		return cpu.Batch[float64]{Data: []float64{4, 0, 0, 9, 16, 0, 0, 25}, Rows: 2, Cols: 2, Stride: 2, Count: 2, Step: 4}
	}
	under := func(policy, driver string) func(t *testing.T) {
		return func(t *testing.T) {
			for _, variable := range promises.Environment(t, policy, driver) {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			a := matrices()
			require.NoError(t, cpu.CholeskyBatch(bg, cublas.Lower, a))
			assert.Equal(t, []float64{2, 0, 0, 3, 4, 0, 0, 5}, a.Data)
		}
	}
	promises.Test(t, "cusolver/cpu", map[string]func(t *testing.T){
		"off":             under("off", "faulty"),
		"absent":          under("auto", "absent"),
		"faulty":          under("auto", "faulty"),
		"required-absent": under("required", "absent"),
		"required-faulty": under("required", "faulty"),
		"ctx": func(t *testing.T) {
			ctx, end := context.WithCancelCause(bg)
			end(errors.New("it is over"))
			assert.ErrorContains(t, cpu.CholeskyBatch(ctx, cublas.Lower, matrices()), "it is over")
		},
		"empty": func(t *testing.T) {
			assert.NoError(t, cpu.CholeskyBatch(bg, cublas.Lower, cpu.Batch[float64]{}))
			assert.NoError(t, cpu.EigenBatch(bg, cublas.Lower, true, cpu.Batch[float64]{}, nil))
		},
		"huge": func(t *testing.T) {
			a := matrices()
			a.Count, a.Step = math.MaxInt, math.MaxInt
			err := cpu.CholeskyBatch(bg, cublas.Lower, a)
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, "and 8 elements")
		},
		"overlap": func(t *testing.T) {
			a := matrices()
			b := cpu.Batch[float64]{Data: a.Data[4:], Rows: 2, Cols: 1, Stride: 1, Count: 2, Step: 2}
			err := cpu.CholeskySolveBatch(bg, cublas.Lower, a, b)
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, "the call writes b")
		},
	})
}
