package promises_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/promises"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// simulated tells a child to simulate a device.
const simulated = "PURECUDA_TEST_PROMISES_SIMULATED"

func simulate(devices int) *drivertest.Driver {
	return drivertest.New(drivertest.Config{Devices: drivertest.Devices(devices, drivertest.T4())})
}

// told is what a door has answered in a process of its own, with the shared runtime and the real loader.
type told struct {
	Where    pool.Place
	Why, Err string
	Kind     driver.Kind // of the error
	Ran      bool        // the fallback, or anything else of the user
}

// asking names the file that a process of its own writes its answers to.
const asking = "PURECUDA_TEST_PROMISES_ASKING"

// TestAsk is the process that answers.
func TestAsk(t *testing.T) {
	file := os.Getenv(asking)
	if file == "" {
		t.Skip("TestPromises runs it, in a process with a policy and a driver of its own")
	}
	all := map[string]told{}
	for name, d := range doors {
		var ran atomic.Bool
		do := d.open(t, runtime.Global(), limits{})
		a := do(t.Context(), functions{
			gpu: func(context.Context, *runtime.Stream) error { ran.Store(true); return nil },
			cpu: func(context.Context) error { ran.Store(true); return nil },
		})
		all[name] = told{Where: a.Where, Why: text(a.Why), Err: text(a.Err), Kind: kindOf(a.Err), Ran: ran.Load()}
	}
	answers, err := json.Marshal(all)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, answers, 0o600))
}

func kindOf(err error) driver.Kind {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Kind
	}
	return ""
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

var answers struct {
	sync.Mutex
	of map[string]map[string]told // by policy and driver, and by door
}

// ask returns what a door says under a policy, with a driver that is "absent" or "faulty". One process answers for all doors.
func ask(t *testing.T, door string, policy runtime.Policy, driver string) told {
	t.Helper()
	answers.Lock()
	defer answers.Unlock()
	key := string(policy) + " " + driver
	if answers.of[key] == nil {
		file := filepath.Join(t.TempDir(), "answers")
		cmd := exec.Command(os.Args[0], "-test.run=^TestAsk$")
		cmd.Env = append(promises.Environment(t, string(policy), driver), asking+"="+file)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var all map[string]told
		require.NoError(t, json.Unmarshal(text, &all))
		if answers.of == nil {
			answers.of = map[string]map[string]told{}
		}
		answers.of[key] = all
	}
	return answers.of[key][door]
}

const illegalText = "CUDA_ERROR_ILLEGAL_ADDRESS"

// check compares an answer with the way that work has to go.
func check(t *testing.T, got told, w way, kind driver.Kind, why string) {
	t.Helper()
	switch w {
	case fails:
		assert.Contains(t, got.Err, why)
		if kind != "" {
			assert.Equal(t, kind, got.Kind, got.Err)
		}
		assert.False(t, got.Ran, "a function of the user ran")
	case onCPU, always:
		assert.Empty(t, got.Err)
		assert.Equal(t, pool.OnCPU, got.Where)
	case tells:
		assert.Empty(t, got.Err)
		assert.Contains(t, got.Why, why)
	}
}

func off(t *testing.T, name string, d door) {
	check(t, ask(t, name, runtime.PolicyOff, "absent"), d.way, driver.ErrDriverLibraryUnavailable, promises.NotLooked)
	check(t, ask(t, name, runtime.PolicyOff, "faulty"), d.way, driver.ErrDriverLibraryUnavailable, promises.NotLooked)
}

func absent(t *testing.T, name string, d door) {
	check(t, ask(t, name, runtime.PolicyAuto, "absent"), d.way, driver.ErrDriverLibraryUnavailable, promises.Absent)
}

func faulty(t *testing.T, name string, d door) {
	w := d.broken
	if d.way == always {
		w = always
	}
	check(t, ask(t, name, runtime.PolicyAuto, "faulty"), w, driver.ErrDriverLibraryLoadFailed, promises.Faulty)
}

func requiredAbsent(t *testing.T, name string, d door) {
	check(t, ask(t, name, runtime.PolicyRequired, "absent"), required(d), driver.ErrRequired, promises.Absent)
}

func requiredFaulty(t *testing.T, name string, d door) {
	check(t, ask(t, name, runtime.PolicyRequired, "faulty"), required(d), "", promises.Faulty)
}

// required is the way where a device has to do the work.
func required(d door) way {
	if d.way == always {
		return always
	}
	return fails
}

// saysSo: the answer has the reason.
func saysSo(t *testing.T, name string, d door) {
	assert.Contains(t, ask(t, name, runtime.PolicyOff, "absent").Why, promises.NotLooked)
	assert.Contains(t, ask(t, name, runtime.PolicyAuto, "absent").Why, promises.Absent)
	if d.broken == onCPU {
		assert.Contains(t, ask(t, name, runtime.PolicyAuto, "faulty").Why, promises.Faulty)
	}
}

// machine opens a runtime on a simulated device.
func machine(t *testing.T, options ...runtime.Option) (*runtime.Runtime, *drivertest.Driver) {
	t.Helper()
	return onDriver(t, drivertest.Config{Devices: drivertest.Devices(1, drivertest.T4())}, options...)
}

func onDriver(t *testing.T, config drivertest.Config, options ...runtime.Option) (*runtime.Runtime, *drivertest.Driver) {
	t.Helper()
	sim := drivertest.ForTest(t, config)
	rt, err := runtime.Open(append([]runtime.Option{runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(sim)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := rt.Close(); rt.Outcome() != runtime.Fault {
			assert.NoError(t, err)
		}
	})
	return rt, sim
}

// without opens a runtime on a machine that has no driver.
func without(t *testing.T) *runtime.Runtime {
	t.Helper()
	rt, _ := onDriver(t, drivertest.Config{InitResult: driver.ResultNoDevice})
	return rt
}

// lose loses CUDA.
func lose(t *testing.T, rt *runtime.Runtime, sim *drivertest.Driver) {
	t.Helper()
	c, err := rt.Context(0)
	require.NoError(t, err)
	sim.Fail("cuStreamCreateWithPriority", 1, driver.ResultIllegalAddress)
	_, err = c.NewStream()
	require.ErrorIs(t, err, driver.ResultIllegalAddress)
	require.Equal(t, runtime.Fault, rt.Outcome())
}

// afterLoss does a request on a device, loses CUDA, and does another one.
func afterLoss(t *testing.T, d door, policy runtime.Policy) (told, answer) {
	rt, sim := machine(t, runtime.WithPolicy(policy))
	do := d.open(t, rt, limits{})
	before := do(t.Context(), functions{cpu: func(context.Context) error { return nil }})
	require.NoError(t, before.Err)
	if d.way != always {
		require.Equal(t, pool.OnGPU, before.Where)
	}
	lose(t, rt, sim)
	var ran atomic.Bool
	a := do(t.Context(), functions{
		gpu: func(context.Context, *runtime.Stream) error { ran.Store(true); return nil },
		cpu: func(context.Context) error { ran.Store(true); return nil },
	})
	return told{Where: a.Where, Why: text(a.Why), Err: text(a.Err), Kind: kindOf(a.Err), Ran: ran.Load()}, a
}

func lost(t *testing.T, name string, d door) {
	w := d.broken
	if d.way == always {
		w = always
	}
	got, _ := afterLoss(t, d, runtime.PolicyAuto)
	check(t, got, w, driver.ErrDeviceLost, illegalText)
	if w == onCPU {
		assert.Contains(t, got.Why, illegalText)
	}
}

func requiredLost(t *testing.T, name string, d door) {
	got, _ := afterLoss(t, d, runtime.PolicyRequired)
	check(t, got, required(d), "", illegalText)
}

// config is a machine with some simulated devices.
func config(devices int) drivertest.Config {
	return drivertest.Config{Devices: drivertest.Devices(devices, drivertest.T4())}
}
