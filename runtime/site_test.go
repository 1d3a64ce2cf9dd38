package runtime_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
	"github.com/purecuda/purecuda/runtime"
)

// What is made on a goroutine of the library has the line of the program that asked for it, in what the driver and the arena
// tell of leaks.
func TestLeaksNameTheProgram(t *testing.T) {
	_, compiler := simulatedNVRTC(t, nvrtctest.Config{})
	gpu := drivertest.New(drivertest.Config{})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu), runtime.WithCompiler(compiler))
	require.NoError(t, err)
	defer rt.Close()
	c := contextOf(t, rt)
	for name, leave := range map[string]func() error{
		"cached module": func() error { return second(c.CachedModule(runtime.Image{Code: kernelsPTX})) },
		"compiled module, with a ctx that can end": func() error {
			ctx, cancel := context.WithCancel(bg)
			defer cancel()
			return second(c.Compile(ctx, adder))
		},
	} {
		before := gpu.Leaks()
		require.NoError(t, leave(), name)
		found := false
		for _, leak := range gpu.Leaks() {
			if strings.Contains(leak, "module") && strings.Count(strings.Join(before, "\n"), leak) == 0 {
				assert.Contains(t, leak, "site_test.go:", "%s", name)
				found = true
			}
		}
		assert.True(t, found, "%s: %v", name, gpu.Leaks())
	}
}
