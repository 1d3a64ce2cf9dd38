package metrics

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/runtime"
)

// numbersWithoutMetric are those of runtime.Stats that no metric shows, with the reasons.
var numbersWithoutMetric = map[string]string{
	"SpareStreams":      "64 at most, of which none does anything",
	"Contexts":          "devices without a context have no launches",
	"Memory.Requested":  "memory.in_use is the same without what open leases keep",
	"Memory.Lost":       "a part of LeakedBytes",
	"Memory.LostBlocks": "a part of Leaked",
	"Memory.Streams":    "objects counts streams",
}

// TestEveryNumberOfStatsIsAMetric changes the fields of runtime.Stats one by one, and looks
// for a sample that changes.
func TestEveryNumberOfStatsIsAMetric(t *testing.T) {
	read := func(s runtime.Stats) string {
		return fmt.Sprint(ofRuntime(runtime.Available, s), ofContext(s, 0))
	}
	nothing := read(runtime.Stats{})
	seen := map[string]bool{}
	var visit func(path string, whole *runtime.Stats, v reflect.Value)
	visit = func(path string, whole *runtime.Stats, v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				visit(path+"."+v.Type().Field(i).Name, whole, v.Field(i))
			}
			return
		case reflect.Uint64:
			v.SetUint(7)
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(7 * time.Second))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Interface: // Lost, which device.usable shows
			return
		default:
			assert.Fail(t, "a kind that this test does not know", "%s: %s", path, v.Kind())
		}
		path = path[1:]
		seen[path] = true
		_, left := numbersWithoutMetric[path]
		assert.NotEqual(t, left, read(*whole) != nothing, "%s is in a metric or in the list of those without", path)
		v.SetZero()
	}
	var s runtime.Stats
	visit("", &s, reflect.ValueOf(&s).Elem())
	for path := range numbersWithoutMetric {
		assert.True(t, seen[path], "%s is no number of Stats", path)
	}
}
