package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/pool/isolate"
)

func TestMain(m *testing.M) {
	isolate.Main(open, module)
	os.Exit(m.Run())
}

const answers = `request 0: 1000 times 0 is 0
request 1: 1000 times 1 is 1000
request 2: its kernel faulted, and its child ended
request 3: 1000 times 3 is 3000
request 4: 1000 times 4 is 4000
request 5: its kernel did not end, and was killed
request 6: 1000 times 6 is 6000
request 7: 1000 times 7 is 7000
`

func TestRun(t *testing.T) {
	check := func(t *testing.T, want string) {
		var out bytes.Buffer
		require.NoError(t, run(&out))
		assert.Equal(t, want, out.String())
	}
	t.Run("simulated", func(t *testing.T) {
		t.Setenv(simulated, "1")
		check(t, answers)
	})
	t.Run("no driver", func(t *testing.T) {
		t.Setenv("PURECUDA_POLICY", "off")
		check(t, "not on a GPU: DriverLibraryUnavailable: the policy is off: the driver was not looked for\na program does the work on its cores here (-simulate shows the rest)\n")
	})
	t.Run("hardware", func(t *testing.T) {
		hardware.Open(t)
		check(t, answers)
	})
}
