package hardware

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

func TestOpenGivesAnInitialisedDriver(t *testing.T) {
	lib := Open(t)
	count, r := lib.DeviceGetCount()
	require.Equal(t, driver.Success, r)
	assert.Positive(t, count)
	assert.Same(t, lib, Open(t))
}

// ending is a test that notes how it was ended.
type ending struct {
	testing.TB
	how string
}

func (e *ending) Helper()               {}
func (e *ending) Skipf(string, ...any)  { e.how = "skipped" }
func (e *ending) Fatalf(string, ...any) { e.how = "failed" }

func TestAbsenceSkipsAndFaultFails(t *testing.T) {
	for _, c := range []struct {
		name, require string
		err           error
		how           string
	}{
		{"no library", "", driver.Errorf(driver.ErrDriverLibraryUnavailable, "none"), "skipped"},
		{"no library, not required", "0", driver.Errorf(driver.ErrDriverLibraryUnavailable, "none"), "skipped"},
		{"no library, required", "1", driver.Errorf(driver.ErrDriverLibraryUnavailable, "none"), "failed"},
		{"no library, required in another word", "true", driver.Errorf(driver.ErrDriverLibraryUnavailable, "none"), "failed"},
		{"no device", "", failed("cuInit", driver.ResultNoDevice), "skipped"},
		{"no device, required", "1", failed("cuInit", driver.ResultNoDevice), "failed"},
		{"does not load", "", driver.Errorf(driver.ErrDriverLibraryLoadFailed, "not a library"), "failed"},
		{"does not start", "", failed("cuInit", driver.ResultUnknown), "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(RequireVariable, c.require)
			var e ending
			end(&e, c.err)
			assert.Equal(t, c.how, e.how)
		})
	}
}
