package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

func TestParsePolicy(t *testing.T) {
	for _, c := range []struct {
		text string
		want runtime.Policy // "" is an error
	}{
		{"auto", runtime.PolicyAuto},
		{"off", runtime.PolicyOff},
		{"required", runtime.PolicyRequired},
		{"", runtime.PolicyAuto},
		{" \t\n", runtime.PolicyAuto},
		{"  Required ", runtime.PolicyRequired},
		{"OFF\n", runtime.PolicyOff},
		{"on", ""},
		{"0", ""},
		{"auto off", ""},
	} {
		t.Run(c.text, func(t *testing.T) {
			p, err := runtime.ParsePolicy(c.text)
			assert.Equal(t, c.want, p)
			if c.want != "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, `want auto, off or required`)
			assert.ErrorContains(t, err, c.text)
		})
	}
}

// A word that PURECUDA_LOADER does not have is a fault, as with the policy: it is nobody's wish to work on the CPU.
func TestUnknownLoaderIsAFault(t *testing.T) {
	t.Setenv("PURECUDA_LOADER", "bogus")
	_, err := runtime.Open()
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, `PURECUDA_LOADER is "bogus": want auto, host or static`)
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
	require.NoError(t, err)
	assert.NoError(t, rt.Close())
}

func TestPolicyOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		name, variable string
		options        []runtime.Option
		outcome        runtime.Outcome // "" is an error of Open
	}{
		{"unset", "", nil, runtime.Available},
		{"off", " Off ", nil, runtime.Absent},
		{"required", "required", nil, runtime.Available},
		{"bad", "sometimes", nil, ""},
		{"the option wins", "off", []runtime.Option{runtime.WithPolicy(runtime.PolicyAuto)}, runtime.Available},
		{"the option wins over nonsense", "sometimes", []runtime.Option{runtime.WithPolicy(runtime.PolicyOff)}, runtime.Absent},
		{"an empty option is auto", "off", []runtime.Option{runtime.WithPolicy("")}, runtime.Available},
		{"a bad option", "off", []runtime.Option{runtime.WithPolicy("sometimes")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(runtime.PolicyVariable, c.variable)
			gpu := drivertest.ForTest(t, drivertest.Config{})
			rt, err := runtime.Open(append(c.options, runtime.WithDriver(gpu))...)
			if c.outcome == "" {
				require.ErrorIs(t, err, driver.ErrInvalidArgument)
				assert.Nil(t, rt)
				assert.Zero(t, allCalls(gpu))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.outcome, rt.Outcome())
			require.NoError(t, rt.Close())
		})
	}
}
