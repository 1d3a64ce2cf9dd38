package ptx

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseHeader(t *testing.T) {
	h, err := ParseHeader([]byte("// by hand\n.version 8.4\n/* x\n*/ .target sm_90a, debug\n.address_size 64\n.future syntax ? of 20"))
	require.NoError(t, err)
	assert.Equal(t, Header{Version: Version{8, 4}, VersionLine: 2, Target: "sm_90a", TargetOptions: []string{"debug"}, TargetLine: 4}, h)

	for src, want := range map[string]Header{
		"":                            {},
		"hello":                       {},
		".target sm_75 .version 6.4":  {},
		".version 6.4":                {Version: Version{6, 4}, VersionLine: 1},
		".version 6.4 .visible .func": {Version: Version{6, 4}, VersionLine: 1},
	} {
		h, err := ParseHeader([]byte(src))
		require.NoError(t, err, src)
		assert.Equal(t, want, h, src)
	}
	for _, src := range []string{".version six", ".version 6.4 .target ,", ".version 6.4 .address_size x"} {
		h, err := ParseHeader([]byte(src))
		require.IsType(t, &SyntaxError{}, err, src)
		assert.Equal(t, 1, h.VersionLine, src)
	}
}
