package dl

import (
	"path/filepath"
	goruntime "runtime"
)

// DriverCandidates lists where a library of the graphics driver may be, in order. It has several names,
// the first of which is right nearly everywhere.
func DriverCandidates(names ...string) []string {
	if len(names) == 0 {
		return nil
	}
	folders := []string{
		"/usr/lib/wsl/lib",                  // WSL 2
		"/run/opengl-driver/lib",            // NixOS
		"/usr/local/nvidia/lib64",           // Kubernetes device plugins
		"/opt/nvidia/lib64",                 // Flatcar
		"/var/lib/nvidia/lib64",             // Container-Optimized OS
		"/home/kubernetes/bin/nvidia/lib64", // GKE
	}
	if goruntime.GOARCH == "arm64" {
		folders = append(folders,
			"/usr/lib/aarch64-linux-gnu/nvidia", // Jetson
			"/usr/lib/aarch64-linux-gnu/tegra")  // Jetson before JetPack 5
	}
	list := []string{names[0]}
	for _, folder := range folders {
		list = append(list, filepath.Join(folder, names[0]))
	}
	return append(list, names[1:]...)
}
