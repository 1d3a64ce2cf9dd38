package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMade compiles the kernels of testdata in a module of their own, and runs their tests there: on the simulated GPU, and in
// loops on the CPU.
func TestMade(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		files int
		races bool // threads of a kernel write the same value, which the race detector forbids
	}{
		"checked": {[]string{"-arch", "sm_75,sm_90"}, 4, false},
		"looped":  {[]string{"-checks", "off"}, 3, true},
		"targets": {[]string{"-arch", "sm_75,sm_80,sm_90a"}, 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := module(t, "package "+name+"\n")
			sources, err := filepath.Glob("testdata/" + name + "/*.go")
			require.NoError(t, err)
			for _, source := range sources {
				if strings.HasPrefix(filepath.Base(source), "kernels_gpu") {
					continue // go generate has been run there
				}
				text, err := os.ReadFile(source)
				require.NoError(t, err)
				write(t, dir, filepath.Base(source), string(text))
			}
			require.NoError(t, run(append(c.flags, dir), io.Discard))
			require.NoError(t, run(append(c.flags, "-check", dir), io.Discard))
			made := 0
			for file := range read(t, dir) {
				if strings.HasPrefix(file, "kernels_gpu") || strings.HasSuffix(file, ".ptx") {
					made++
				}
			}
			assert.Equal(t, c.files, made)
			test := []string{"test", "."}
			if info, ok := debug.ReadBuildInfo(); ok && !c.races && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
				test = []string{"test", "-race", "."}
			}
			out, err := goes(t, dir, test...)
			require.NoError(t, err, out)
		})
	}
}

// TestTargets compiles for two targets. What a device takes is the newest that is not newer than itself; the head alone says which.
func TestTargets(t *testing.T) {
	dir := module(t, program)
	require.NoError(t, run([]string{"-arch", "sm_75,sm_90", dir}, io.Discard))
	made := read(t, dir)
	older, newer := made["kernels_sm_75.ptx"], made["kernels_sm_90.ptx"]
	assert.Contains(t, older, ".version 7.0\n.target sm_75\n")
	assert.Equal(t, strings.NewReplacer(".version 7.0", ".version 7.8", ".target sm_75", ".target sm_90").Replace(older), newer)
	assert.Contains(t, made["kernels_gpu.go"], "{Arch: 75, Code: kernelImage0}, {Arch: 90, Code: kernelImage1}")
}
