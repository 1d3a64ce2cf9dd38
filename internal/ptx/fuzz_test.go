package ptx

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse: whatever comes in, the reader gives a module or a *SyntaxError.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("exec/testdata/*.ptx")
	for _, name := range files {
		if src, err := os.ReadFile(name); err == nil {
			f.Add(src)
		}
	}
	f.Add([]byte(".version 7.0\n.target sm_80\n.global .b8 x[4] = {1, 2U, 0x3, -1};\n.entry k(.param .align 8 .b8 p[16]) { .reg .b32 %r<4>; { .reg .v2 .f32 v; mov.f32 v.x, 0f3F800000; } @!%p bra L; L: ret; }"))
	f.Fuzz(func(t *testing.T, src []byte) {
		if _, err := ParseHeader(src); err != nil && !errors.As(err, new(*SyntaxError)) {
			t.Fatalf("error of type %T", err)
		}
		m, err := Parse(src)
		if (m == nil) == (err == nil) {
			t.Fatal("neither module nor error, or both")
		}
		var s *SyntaxError
		if err != nil && !errors.As(err, &s) {
			t.Fatalf("error of type %T", err)
		}
		if err == nil {
			sameSignatures(t, m, src)
		}
	})
}

// sameSignatures compares a module with what is read of it without bodies.
func sameSignatures(t *testing.T, m *Module, src []byte) {
	only, err := ParseSignatures(src)
	require.NoError(t, err)
	for _, lists := range [][2][]*Function{{m.Entries, only.Entries}, {m.Functions, only.Functions}} {
		require.Len(t, lists[1], len(lists[0]))
		for i, f := range lists[0] {
			g := lists[1][i]
			require.Equal(t, f.Name, g.Name)
			require.Equal(t, f.Params, g.Params)
			require.Equal(t, f.Returns, g.Returns)
			require.Empty(t, g.Body)
		}
	}
}
