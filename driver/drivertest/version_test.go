package drivertest_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// A version alone makes an old driver: it has the functions of that version and reads
// PTX up to the newest of that version.
func TestDriversOfAVersion(t *testing.T) {
	for _, c := range []struct {
		version driver.Version
		newest  string // PTX
		newer   string
		without []string // functions that came later
		lazy    bool
	}{
		{11000, "7.0", "7.1", []string{"cuStreamWriteValue64", "cuMemAllocAsync", "cuGraphInstantiateWithFlags", "cuLaunchKernelEx", "cuLibraryLoadData", "cuStreamGetId"}, false},
		{11080, "7.8", "8.0", []string{"cuLibraryLoadData", "cuStreamGetId", "cuGraphExecUpdate", "cuFuncGetName"}, false},
		{12020, "8.2", "8.3", []string{"cuFuncGetName", "cuFuncGetParamInfo", "cuFuncLoad"}, true},
		{13000, "9.0", "9.1", nil, true},
	} {
		t.Run(c.version.String(), func(t *testing.T) {
			missing := missingFunctions(t, c.version)
			for _, e := range driver.Entries() {
				assert.Equal(t, e.Since() > c.version, missing[e.Name], "%s came with %v", e.Name, e.Since())
			}
			for _, name := range c.without {
				assert.True(t, missing[name], name)
			}
			assert.Equal(t, len(c.without) == 0, len(missing) == 0)

			g := start(t, drivertest.Config{Version: c.version, Devices: []drivertest.DeviceConfig{drivertest.T4()}})
			load := func(version string) (string, driver.Result) {
				m, log, r := g.ModuleLoadData([]byte(strings.Replace(ptx, ".version 6.4", ".version "+version, 1)), driver.JIT{})
				if r == driver.Success {
					g.ok(g.ModuleUnload(m))
				}
				return log.Error, r
			}
			_, r := load(c.newest)
			g.ok(r)
			log, r := load(c.newer)
			g.is(driver.ResultUnsupportedPTXVersion, r)
			assert.Contains(t, log, c.newer)
			if c.version >= 11070 {
				mode, r := g.ModuleGetLoadingMode()
				g.ok(r)
				assert.Equal(t, c.lazy, mode == driver.LoadingLazy)
			}
			_, r = g.DeviceGetAttribute(driver.DeviceAttributeMemoryPoolsSupported, 0)
			assert.Equal(t, c.version >= 11020, r == driver.Success)
			version, r := g.DriverGetVersion()
			g.ok(r)
			assert.Equal(t, c.version, version)
		})
	}
}

// missingFunctions calls every function and returns those that the driver lacks.
func missingFunctions(t *testing.T, version driver.Version) map[string]bool {
	t.Helper()
	missing := map[string]bool{}
	api := reflect.TypeFor[driver.API]()
	for i := range api.NumMethod() {
		var called []string
		g := drivertest.New(drivertest.Config{Version: version})
		method := reflect.ValueOf(g).MethodByName(api.Method(i).Name)
		args := make([]reflect.Value, method.Type().NumIn())
		for i := range args {
			args[i] = reflect.Zero(method.Type().In(i))
		}
		results := method.Call(args)
		for _, e := range driver.Entries() {
			if g.Calls(e.Name) > 0 {
				called = append(called, e.Name)
			}
		}
		require.Len(t, called, 1, fmt.Sprint(api.Method(i).Name, " is one function"))
		if results[len(results)-1].Interface() == driver.ResultSymbolMissing {
			missing[called[0]] = true
		}
		require.NoError(t, g.Close())
	}
	return missing
}
