package promises_test

import (
	"sync"
	"testing"

	"github.com/purecuda/purecuda/internal/promises"
)

// arguments are those without which a program needs more than the machine has, or a fixed port.
var arguments = map[string][]string{"examples/http": {"-addr", "localhost:0"}}

// programs builds the programs of this module when the first is asked for. Their folder goes when the test of all doors ends.
func programs(all *testing.T) func(t *testing.T) string {
	var once sync.Once
	built := ""
	return func(t *testing.T) string {
		t.Helper()
		needSource(t)
		once.Do(func() {
			var packages []string
			for _, d := range promises.Doors {
				if d.Folder != "" && d.Test == here {
					packages = append(packages, "./"+d.Folder)
				}
			}
			folder := all.TempDir()
			promises.Build(t, root, folder, packages...)
			built = folder
		})
		if built == "" {
			t.Skip("the programs could not be built: the first test of one says why")
		}
		return built
	}
}
