package promises_test

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/promises"
)

// arguments are those without which a program needs more than the machine has, or a fixed port.
var arguments = map[string][]string{"examples/http": {"-addr", "localhost:0"}}

var built struct {
	once   sync.Once
	folder string
}

// programs builds the programs of this module, once.
func programs(t *testing.T) string {
	t.Helper()
	needSource(t)
	built.once.Do(func() {
		var err error
		built.folder, err = os.MkdirTemp("", "promises")
		require.NoError(t, err)
		var packages []string
		for _, d := range promises.Doors {
			if d.Folder != "" && d.Test == here {
				packages = append(packages, "./"+d.Folder)
			}
		}
		promises.Build(t, root, built.folder, packages...)
	})
	if built.folder == "" {
		t.Skip("the programs could not be built: the first test of one says why")
	}
	return built.folder
}
