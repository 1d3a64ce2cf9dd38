//go:build !unix

package main

import (
	"os/exec"
	"testing"
)

func asNobody(t *testing.T, _ ...string) *exec.Cmd {
	t.Helper()
	t.Skip("no users without privileges that a test could be")
	return nil
}
