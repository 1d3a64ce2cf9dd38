package dl

import (
	"os"
	"path/filepath"
)

// DriverCandidates lists where a library of the graphics driver may be, in order. Bare names are left
// out, so that only the system's own folders are looked at.
func DriverCandidates(names ...string) (list []string) {
	root, programs := os.Getenv("SystemRoot"), os.Getenv("ProgramFiles")
	if root == "" {
		root = `C:\Windows`
	}
	if programs == "" {
		programs = `C:\Program Files`
	}
	for _, name := range names {
		list = append(list, filepath.Join(root, "System32", name))
		if name == "nvml.dll" {
			list = append(list, filepath.Join(programs, "NVIDIA Corporation", "NVSMI", name)) // drivers before 2019
		}
	}
	return list
}
