package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/promises"
)

func TestPromises(t *testing.T) {
	folder, input := t.TempDir(), filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(input, make([]byte, 10_000), 0o600))
	promises.Build(t, ".", folder, ".")
	promises.Test(t, "cluster/cmd/purecuda-cluster", promises.Program("purecuda-cluster", func(*testing.T) string { return folder },
		"hash", "--input", input, "--workers", "1"))
}
