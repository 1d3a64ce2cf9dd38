package nvrtc

import (
	"os"
	"path/filepath"
)

// PathVariable names the environment variable that replaces the candidates of [Open] by
// one file.
const PathVariable = "PURECUDA_NVRTC_PATH"

// Candidates lists where Open looks for NVRTC, in order: the file that PURECUDA_NVRTC_PATH names
// and nothing else if it is set. Otherwise it is an NVRTC that is in the process already, then the
// toolkit of CUDA_PATH and CUDA_HOME, then what the system's loader knows. Last come the toolkits
// in their usual folders, and the active Python environment (VIRTUAL_ENV, CONDA_PREFIX). In each
// place the newest comes first. It is empty where CUDA has no NVRTC. It reads directories.
func Candidates() []string {
	if path := os.Getenv(PathVariable); path != "" {
		return []string{path}
	}
	var list []string
	seen := map[string]bool{}
	add := func(candidates ...string) {
		for _, c := range candidates {
			if c != "" && !seen[c] {
				seen[c] = true
				list = append(list, c)
			}
		}
	}
	inDirs := func(root string, dirs []string) {
		for _, dir := range dirs {
			for _, name := range libraryNames {
				add(filepath.Join(root, dir, name))
			}
		}
	}
	if len(libraryNames) == 0 {
		return nil
	}
	add(mappedFile())
	for _, variable := range []string{"CUDA_PATH", "CUDA_HOME"} {
		if root := os.Getenv(variable); filepath.IsAbs(root) {
			inDirs(root, toolkitDirs)
		}
	}
	add(libraryNames...)
	for _, root := range toolkitRoots() {
		inDirs(root, toolkitDirs)
	}
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		root := os.Getenv(variable)
		if !filepath.IsAbs(root) {
			continue
		}
		for _, pattern := range sitePackages {
			sites, _ := filepath.Glob(filepath.Join(root, pattern))
			for _, site := range sites {
				inDirs(site, wheelDirs)
			}
		}
		if variable == "CONDA_PREFIX" {
			inDirs(root, condaDirs)
		}
	}
	return list
}
