package main

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

func TestReadmeShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme), "```go\n"+string(program)+"```\n")
}

func TestOnGPU(t *testing.T) {
	x, y := []float32{1, 2, 3, 4}, []float32{10, 20, 30, 40}
	err := onGPU(x, y)
	if errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	assert.Equal(t, []float32{12, 24, 36, 48}, y)
}
