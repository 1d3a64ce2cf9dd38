package driver

import (
	"reflect"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEntries(t *testing.T) {
	all := Entries()
	require.Greater(t, len(all), 110)
	seen := map[string]bool{}
	api := reflect.TypeFor[API]()
	for _, e := range all {
		assert.False(t, seen[e.Name], "%s stands twice", e.Name)
		seen[e.Name] = true
		assert.NotZero(t, e.Since(), e.Name)
		for i, v := range e.variants {
			assert.Regexp(t, regexp.MustCompile(`^`+e.Name+`(_v\d)?$`), v.symbol)
			if i > 0 {
				assert.Less(t, v.version, e.variants[i-1].version, "%s: newest variant first", e.Name)
			}
			if e.Required {
				assert.LessOrEqual(t, e.Since(), Version(11000), "%s: no driver from 11.0 on may be refused", e.Name)
			}
		}
	}
	const steps = 3 // cuLinkCreate, cuLinkAddData and cuLinkDestroy, of Link
	assert.Equal(t, len(all), api.NumMethod()+steps, "one method for each entry")
	for i := range api.NumMethod() {
		m := api.Method(i).Type
		for j := range m.NumOut() - 1 {
			assert.NotEqual(t, reflect.TypeFor[Result](), m.Out(j), "%s: the result is the last one", api.Method(i).Name)
		}
		assert.Equal(t, reflect.TypeFor[Result](), m.Out(m.NumOut()-1), api.Method(i).Name)
	}
	_, ok := entryByName("cuMemAlloc_v2")
	assert.False(t, ok)
	e, ok := entryByName("cuMemAlloc")
	require.True(t, ok)
	assert.True(t, e.Required && e.NeedsContext)
	assert.Equal(t, "3.2", e.Since().String())
}

func TestEntriesAreACopy(t *testing.T) {
	Entries()[0].Name = "changed"
	assert.Equal(t, "cuInit", Entries()[0].Name)
}

func TestTextOf(t *testing.T) {
	assert.Equal(t, "ab", textOf([]byte("ab\x00cd")))
	assert.Equal(t, "ab", textOf([]byte("ab")))
}
