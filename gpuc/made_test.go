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
			for file, text := range read(t, dir) {
				if strings.HasPrefix(file, "kernels_gpu") || strings.HasSuffix(file, ".ptx") {
					made++
				}
				if strings.HasSuffix(file, ".go") {
					formatted(t, text)
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

// TestFloat16 compiles the products of package kernels for Float16. They are those for BFloat16 under other names, which is how package
// kernels makes them.
func TestFloat16(t *testing.T) {
	names := strings.NewReplacer("BFloat16", "Float16", "bf16", "f16") // forFloat16 of package kernels
	for name, target := range map[string]string{"gemm": "sm_80", "hopper": "sm_90a"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := filepath.Join("../kernels/internal", name)
			source, err := os.ReadFile(filepath.Join(from, "gemm.go"))
			require.NoError(t, err)
			dir := module(t, "package "+name+"\n")
			gomod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			require.NoError(t, err)
			// kernels/internal is for packages below kernels only.
			write(t, dir, "go.mod", strings.Replace(string(gomod), "example.com/k", "github.com/purecuda/purecuda/kernels/of_a_test", 1))
			write(t, dir, "gemm.go", strings.ReplaceAll(string(source), "T=gpu.BFloat16", "T=gpu.Float16"))
			require.NoError(t, run([]string{"-arch", target, "-checks", "off", "-launch=false", dir}, io.Discard))
			kept, err := filepath.Glob(filepath.Join(from, "*.ptx"))
			require.NoError(t, err)
			require.NotEmpty(t, kept)
			for _, path := range kept {
				ptx, err := os.ReadFile(path)
				require.NoError(t, err)
				made, err := os.ReadFile(filepath.Join(dir, strings.Replace(filepath.Base(path), "bfloat16", "float16", 1)))
				require.NoError(t, err)
				same := names.Replace(string(ptx)) == strings.Replace(string(made), "kernels/of_a_test/", "kernels/internal/"+name+"/", 1)
				assert.True(t, same, "%s with other names is not what gpuc writes for Float16", path)
			}
		})
	}
}
