package main

import (
	"testing"

	"github.com/purecuda/purecuda/internal/promises"
)

func TestPromises(t *testing.T) {
	folder := t.TempDir()
	promises.Build(t, ".", folder, ".")
	promises.Test(t, "libs/examples/regression", promises.Program("regression", func(*testing.T) string { return folder }))
}
