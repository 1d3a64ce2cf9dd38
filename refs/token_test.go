package refs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
)

func TestToken(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	resolver := m.state.Resolver()
	r := alloc(t, m, m.stream(t), 100)
	token, err := r.Token()
	require.NoError(t, err)
	again, err := r.Token()
	require.NoError(t, err)
	assert.Equal(t, token, again)

	parsed, err := refs.ParseToken(token.String())
	require.NoError(t, err)
	assert.Equal(t, token, parsed)
	found, err := refs.Resolve[uint32](resolver, parsed)
	require.NoError(t, err)
	assert.Equal(t, r.Core().Ptr(), found.Core().Ptr())
	assert.Equal(t, 100, found.Len())

	part := r.Slice(10, 20)
	view, err := part.Token()
	require.NoError(t, err)
	assert.NotEqual(t, token, view)
	foundPart, err := refs.Resolve[uint32](resolver, view)
	require.NoError(t, err)
	assert.Equal(t, part.Core().Ptr(), foundPart.Core().Ptr())
	assert.Equal(t, 10, foundPart.Len())

	// A token names the Ref that it was asked of, and not the memory.
	require.NoError(t, r.Close())
	for _, t2 := range []refs.Token{token, view} {
		_, err = refs.Resolve[uint32](resolver, t2)
		assert.ErrorIs(t, err, driver.ErrRefStale)
		assert.ErrorContains(t, err, "names no Ref that is open")
	}
	require.NoError(t, foundPart.Close())
	_, err = found.Access()
	require.NoError(t, err)
	require.NoError(t, found.Close())
	assert.Equal(t, refs.Stats{Freed: 1}, m.state.Stats())
}

func TestTokensThatDoNotResolve(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	resolver := m.state.Resolver()
	r := alloc(t, m, m.stream(t), 100)
	defer r.Close()
	good, err := r.Token()
	require.NoError(t, err)
	for name, change := range map[string]func(*refs.Token){
		"node":       func(t *refs.Token) { t.Node += "x" },
		"process":    func(t *refs.Token) { t.Process[3] ^= 1 },
		"device":     func(t *refs.Token) { t.Device++ },
		"buffer":     func(t *refs.Token) { t.Buffer++ },
		"generation": func(t *refs.Token) { t.Generation++ },
		"secret":     func(t *refs.Token) { t.Secret[15] ^= 1 },
		"no secret":  func(t *refs.Token) { t.Secret = [16]byte{} },
		"nothing":    func(t *refs.Token) { *t = refs.Token{} },
	} {
		bad := good
		change(&bad)
		_, err := refs.Resolve[uint32](resolver, bad)
		assert.ErrorIs(t, err, driver.ErrRefStale, name)
	}
	_, err = refs.Resolve[uint32](refs.NewResolver(""), good)
	assert.ErrorIs(t, err, driver.ErrRefStale)
	assert.ErrorContains(t, err, "another process")
	_, err = refs.Resolve[uint32](nil, good)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = refs.Resolve[int32](resolver, good)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "elements of uint32, not int32")
	_, err = refs.Resolve[[2]uint32](resolver, good)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	require.NoError(t, m.state.Rebuild())
	_, err = refs.Resolve[uint32](resolver, good)
	assert.ErrorIs(t, err, driver.ErrRefStale)
	assert.ErrorContains(t, err, "context rebuilt")
}

// A token does not keep its Ref from being forgotten.
func TestTokenOfForgotten(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s := m.stream(t)
	token, err := alloc(t, m, s, 100).Token()
	require.NoError(t, err)
	collect(t, func() bool { return m.state.Stats().Waiting == 1 })
	_, err = refs.Resolve[uint32](m.state.Resolver(), token)
	assert.ErrorIs(t, err, driver.ErrRefStale)
}

func TestTokenText(t *testing.T) {
	resolver := refs.NewResolver("höst:1 /%\n" + strings.Repeat("n", 300))
	state := refs.NewState(2, refs.StateConfig{Resolver: resolver})
	assert.Same(t, resolver, state.Resolver())
	token := refs.Token{Node: "höst:1 /%\n", Device: 2, Buffer: 1 << 63, Generation: 5}
	token.Process[0], token.Secret[15] = 0xab, 0xcd
	assert.Equal(t, "pcref1:h%C3%B6st%3A1+%2F%25%0A:2:9223372036854775808:5:ab000000000000000000000000000000:000000000000000000000000000000cd", token.String())
	text, err := json.Marshal(map[string]refs.Token{"x": token})
	require.NoError(t, err)
	var back map[string]refs.Token
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, token, back["x"])

	good := token.String()
	for _, bad := range []string{
		"", "x", good + ":", good + "0", good[1:], good[:len(good)-1], strings.ToUpper(good),
		strings.Replace(good, ":2:", ":02:", 1), strings.Replace(good, ":2:", ":-2:", 1), strings.Replace(good, ":2:", ":+2:", 1),
		strings.Replace(good, ":2:", "::", 1), strings.Replace(good, ":5:", ":18446744073709551616:", 1),
		strings.Replace(good, ":5:", ":x:", 1), strings.Replace(good, "%0A", "%0a", 1), strings.Replace(good, "%0A", "%", 1),
		strings.Replace(good, "cd", "zz", 1), strings.Replace(good, "ab0", "zz0", 1), strings.Replace(good, "h%C3", strings.Repeat("n", 256), 1),
		strings.Repeat("pcref1:", 1000), strings.Replace(good, "9223372036854775808", "-1", 1),
	} {
		_, err := refs.ParseToken(bad)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, bad)
		assert.ErrorIs(t, new(refs.Token).UnmarshalText([]byte(bad)), driver.ErrInvalidArgument)
	}
}

// Whatever the parser takes is what would be written, and nothing makes it panic.
func FuzzParseToken(f *testing.F) {
	f.Add(refs.Token{Node: "n"}.String())
	f.Add(refs.Token{Node: "a:b c", Device: 7, Buffer: 9, Generation: 1 << 60, Secret: [16]byte{1}}.String())
	f.Add("pcref1::0:0:0::")
	f.Add("pcref1:%zz:-1:0x1:1e3:" + strings.Repeat("g", 32) + ":" + strings.Repeat("0", 31))
	f.Fuzz(func(t *testing.T, text string) {
		token, err := refs.ParseToken(text)
		if err != nil {
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.Zero(t, token)
			return
		}
		assert.Equal(t, text, token.String())
		again, err := refs.ParseToken(token.String())
		require.NoError(t, err)
		assert.Equal(t, token, again)
	})
}
