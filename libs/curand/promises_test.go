package curand_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/promises"
	"github.com/purecuda/purecuda/libs/curand"
)

func TestPromises(t *testing.T) {
	under := func(policy, driver string) func(t *testing.T) {
		return func(t *testing.T) {
			for _, variable := range promises.Environment(t, policy, driver) {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			c, err := curand.NewCPU(curand.Options{Kind: curand.Philox, Seed: 1})
			require.NoError(t, err)
			whole, parts := make([]uint32, 100), make([]uint32, 100)
			c.Uint32(whole)
			c.Reset(1, 0)
			c.Uint32(parts[:7])
			c.Uint32(parts[7:])
			assert.Equal(t, whole, parts)
			assert.NotEqual(t, make([]uint32, 100), whole)
		}
	}
	promises.Test(t, "curand.CPU", map[string]func(t *testing.T){
		"off":             under("off", "faulty"),
		"absent":          under("auto", "absent"),
		"faulty":          under("auto", "faulty"),
		"required-absent": under("required", "absent"),
		"required-faulty": under("required", "faulty"),
		"empty": func(t *testing.T) {
			a, err := curand.NewCPU(curand.Options{Kind: curand.Philox, Seed: 1})
			require.NoError(t, err)
			b, err := curand.NewCPU(curand.Options{Kind: curand.Philox, Seed: 1})
			require.NoError(t, err)
			a.Uniform(nil)
			a.Normal(nil, 0, 1)
			one, other := make([]uint32, 8), make([]uint32, 8)
			a.Uint32(one)
			b.Uint32(other)
			assert.Equal(t, other, one, "no number was used up")
		},
	})
}
