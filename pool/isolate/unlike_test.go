//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

func init() {
	isolate.Register("hopper/v1", func(w *pool.Worker, _ *isolate.Request) ([]byte, error) {
		m, err := loadHopper(w.Context())
		if err != nil {
			return nil, err
		}
		return []byte{byte(w.Device().Capability.Arch())}, m.Close()
	})
}

func openUnlike(t *testing.T, where string, devices ...int) *isolate.Group {
	config := machine(2)
	config.Devices[1] = drivertest.H100()
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.ForTest(t, config)), runtime.WithScore(func(d runtime.Device) float64 {
		return float64(2 - d.Ordinal) // the T4 is the better one
	}))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	g, err := isolate.Open(rt, isolate.WithOutput(lines{t}), isolate.WithEnvironment(fmt.Sprint(simulation, "=2"), unlike+"="+where), isolate.WithDevices(devices...))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// A child whose device cannot run the kernel, as its setup or a function says, fails nothing that the child of another one can do.
func TestOneOfTwoDevicesCanDoIt(t *testing.T) {
	for _, where := range []string{"setup", "function"} {
		t.Run(where, func(t *testing.T) {
			g := openUnlike(t, where)
			ctx := within(t)
			for range 5 {
				got, report, err := g.Do(ctx, "hopper/v1", nil)
				require.NoError(t, err)
				assert.Equal(t, []byte{90}, got)
				assert.Equal(t, 1, report.Device)
			}
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					_, _, err := g.Do(ctx, "hopper/v1", nil)
					assert.NoError(t, err)
				})
			}
			all.Wait()
			s := g.Stats().Devices[0]
			if where == "setup" {
				assert.LessOrEqual(t, s.Deaths, uint64(1), "the next child would do no better")
			} else {
				assert.Zero(t, s.Deaths)
			}
		})
	}
}

// With no other device the error says what the device lacks, at once.
func TestNoDeviceCanDoIt(t *testing.T) {
	for _, where := range []string{"setup", "function"} {
		t.Run(where, func(t *testing.T) {
			g := openUnlike(t, where, 0)
			for range 3 {
				_, _, err := g.Do(within(t), "hopper/v1", nil)
				assert.ErrorIs(t, err, driver.ErrModuleLoadFailed)
				assert.True(t, driver.UnfitDevice(err), "%v", err)
			}
		})
	}
}
