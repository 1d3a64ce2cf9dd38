package pool

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
)

// What kernels of an earlier function have reported is never the error of a later one, whenever the driver refuses its waits.
func TestSettle(t *testing.T) {
	check, refused, again := errors.New("a check of another function"), driver.Errorf(driver.ErrDriverCallFailed, "once"), driver.Errorf(driver.ErrDriverCallFailed, "twice")
	ended, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the caller has left")
	cancel(left)
	for name, c := range map[string]struct {
		ctx  context.Context
		says []error // the results of the checks
		want error
	}{
		"a check":                  {t.Context(), []error{check, nil}, nil},
		"refused, then a check":    {t.Context(), []error{refused, check, nil}, nil},
		"a check, then refused":    {t.Context(), []error{check, refused, nil}, nil},
		"two checks and a refusal": {t.Context(), []error{check, refused, check, nil}, nil},
		"refused twice":            {t.Context(), []error{refused, check, again}, again},
		"the ctx ends":             {ended, []error{left}, left},
	} {
		t.Run(name, func(t *testing.T) {
			next := 0
			err := settle(c.ctx, c.says[0], func() error { next++; return c.says[next] })
			assert.Equal(t, c.want, err)
			assert.Equal(t, len(c.says)-1, next)
		})
	}
}
