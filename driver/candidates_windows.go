package driver

import (
	"os"
	"path/filepath"
)

func platformCandidates() []string {
	root := os.Getenv("SystemRoot")
	if root == "" {
		root = `C:\Windows`
	}
	return []string{filepath.Join(root, "System32", "nvcuda.dll")}
}
