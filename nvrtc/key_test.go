package nvrtc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/artifact"
)

func keyOf(t *testing.T, p Program) artifact.Key {
	t.Helper()
	k, why := key(p, Target{Kind: CUBIN, Arch: 90}, &facts{Version: 12040, Build: "build"})
	require.Empty(t, why)
	return k
}

// TestKeysDiffer: whatever can change the result changes the key.
func TestKeysDiffer(t *testing.T) {
	seen := map[artifact.Key]string{}
	note := func(name string, k artifact.Key, why string) {
		require.Empty(t, why, name)
		assert.Empty(t, seen[k], name)
		seen[k] = name
	}
	target := Target{Kind: CUBIN, Arch: 90}
	for name, p := range map[string]Program{
		"plain":      {Source: "x"},
		"source":     {Source: "y"},
		"name":       {Source: "x", Name: "y.cu"},
		"header":     {Source: "x", Headers: map[string]string{"a": "b"}},
		"header 2":   {Source: "x", Headers: map[string]string{"ab": ""}},
		"header 3":   {Source: "x", Headers: map[string]string{"a": "", "b": ""}},
		"expression": {Source: "x", NameExpressions: []string{"f"}},
		"define":     {Source: "x", Options: Options{Defines: map[string]string{"A": "1"}}},
		"define 2":   {Source: "x", Options: Options{Defines: map[string]string{"A": "2"}}},
		"std":        {Source: "x", Options: Options{Std: "c++14"}},
		"fast":       {Source: "x", Options: Options{FastMath: true}},
		"fma":        {Source: "x", Options: Options{NoFMA: true}},
		"line":       {Source: "x", Options: Options{Extra: []string{"--generate-line-info"}}},
		"debug":      {Source: "x", Options: Options{Extra: []string{"--device-debug"}}},
		"registers":  {Source: "x", Options: Options{MaxRegisters: 8}},
		"include":    {Source: "x", Options: Options{IncludePaths: []string{"/a", "/b"}}},
		"include 2":  {Source: "x", Options: Options{IncludePaths: []string{"/b", "/a"}}},
		"extra":      {Source: "x", Options: Options{Extra: []string{"--restrict"}}},
	} {
		k, why := key(p, target, &facts{Version: 12040, Build: "build"})
		note(name, k, why)
	}
	p := Program{Source: "x"}
	for name, of := range map[string]func() (artifact.Key, string){
		"version": func() (artifact.Key, string) { return key(p, target, &facts{Version: 12050, Build: "build"}) },
		"build":   func() (artifact.Key, string) { return key(p, target, &facts{Version: 12040, Build: "other"}) },
		"arch": func() (artifact.Key, string) {
			return key(p, Target{Kind: CUBIN, Arch: 89}, &facts{Version: 12040, Build: "build"})
		},
		"suffix": func() (artifact.Key, string) {
			return key(p, Target{CUBIN, 90, "a"}, &facts{Version: 12040, Build: "build"})
		},
		"kind": func() (artifact.Key, string) {
			return key(p, Target{Kind: PTX, Arch: 90}, &facts{Version: 12040, Build: "build"})
		},
		"lto": func() (artifact.Key, string) {
			return key(p, Target{Kind: LTOIR, Arch: 90}, &facts{Version: 12040, Build: "build"})
		},
	} {
		k, why := of()
		note(name, k, why)
	}
}

func TestKeysOfTheSameAreTheSame(t *testing.T) {
	a := Program{Source: "x", Name: "program.cu", NameExpressions: []string{"b", "a", "b"}}
	b := Program{Source: "x", NameExpressions: []string{"a", "b"}}
	assert.Equal(t, keyOf(t, a), keyOf(t, b))
}

// TestKeysKnowTheFiles: a key changes with every file that may be included, and with none
// that may not.
func TestKeysKnowTheFiles(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(second, "a.h", "#  include \"sub/b.h\"\n")
	write(second, "sub/b.h", "/* c */ # /* d */ include /* e */ <c.h> // f\n#include \"near.h\"")
	write(second, "c.h", "#if 0\n#incl\\\nude <never.h>\n#endif\n#if __has_include(<maybe.h>)\n#endif\n")
	p := Program{Source: "#include <a.h>\n#include \"mine.h\"\n", Options: Options{IncludePaths: []string{first, second}}}
	p.Headers = map[string]string{"mine.h": "#include <from-memory.h>"}
	before := keyOf(t, p)
	assert.Equal(t, before, keyOf(t, p))

	write(second, "unrelated.h", "x")
	write(first, "near.h", "taken for the one beside b.h if that were not looked at first")
	now := keyOf(t, p)
	assert.NotEqual(t, before, now, "near.h may be meant")
	for _, change := range []func(){
		func() { write(second, "c.h", "changed") },
		func() { write(second, "sub/near.h", "appeared") },
		func() { write(first, "sub/b.h", "appeared in an earlier directory") },
		func() { write(second, "from-memory.h", "appeared") },
		func() { write(second, "c.h", "#include <never.h>\n#if __has_include(<maybe.h>)\n#endif\n") },
		func() { write(second, "maybe.h", "appeared") },
		func() { write(second, "never.h", "appeared") },
		func() { require.NoError(t, os.Remove(filepath.Join(second, "never.h"))) },
		func() {
			require.NoError(t, os.Mkdir(filepath.Join(second, "dir.h"), 0o700))
			p.Source += "#include <dir.h>"
		},
	} {
		change()
		next := keyOf(t, p)
		assert.NotEqual(t, now, next)
		now = next
	}
	write(second, "unrelated.h", "y")
	assert.Equal(t, now, keyOf(t, p))
}

func TestWhatCannotBeKnownHasNoKey(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.h"), []byte("#define B <b.h>\n#include B\n"), 0o600))
	include := Options{IncludePaths: []string{dir}}
	for name, p := range map[string]Program{
		"macro":           {Source: "#define A <a.h>\n#include A\n"},
		"macro in a file": {Source: "#include <a.h>", Options: include},
		"macro in memory": {Source: "x", Headers: map[string]string{"h": "  # include_next X"}},
		"pre-include":     {Source: "x", Options: Options{Extra: []string{"--pre-include=a.h"}}},
		"-include":        {Source: "x", Options: Options{Extra: []string{"-include", "a.h"}}},
		"-I":              {Source: "x", Options: Options{Extra: []string{"-I/x"}}},
		"pch":             {Source: "x", Options: Options{Extra: []string{"--pch"}}},
		"time":            {Source: "x", Options: Options{Extra: []string{"-time=file"}}},
	} {
		_, why := key(p, Target{Kind: CUBIN, Arch: 90}, &facts{Version: 12040, Build: ""})
		assert.NotEmpty(t, why, name)
	}
	for _, text := range []string{"// see #include directives", " * #include of foo", "#pragma include_alias", "#define HAS_INCLUDE(X) __has_include(X)"} {
		keyOf(t, Program{Source: text})
	}
	for _, device := range []string{"/dev/zero", "/dev/stdin"} {
		keyOf(t, Program{Source: "#include \"" + device + "\""})
	}
}

func TestHeaderNames(t *testing.T) {
	names, computed := headerNames("#include <a.h>\r\n# include \"b c.h\" // \"d\"\n#if __has_include(<e>) || HAS_INCLUDE(<f>)\n" +
		"x < y\n#incl\\\nude <g>\n#import \"h\"\n#include <\n#include \"")
	assert.Empty(t, computed)
	slices.Sort(names)
	assert.Equal(t, []string{"a.h", "b c.h", "d", "e", "f", "g", "h"}, slices.Compact(names))
	_, computed = headerNames("a\n#include <a.h>\n  #  include /* x */ HEADER // y\n")
	assert.Equal(t, "#  include /* x */ HEADER // y", computed)
}

func FuzzHeaderNames(f *testing.F) {
	f.Add("#include <a.h>\n#include \"b.h\"")
	f.Add("# /**/ include /* */ \"x y.h\"")
	f.Add("include <")
	f.Fuzz(func(t *testing.T, text string) {
		names, _ := headerNames(text)
		for _, name := range names {
			assert.NotEmpty(t, name)
			assert.NotEmpty(t, places(name, ".", []string{"/a"}))
		}
	})
}
