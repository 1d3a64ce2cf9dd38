package driver

import goruntime "runtime"

func platformCandidates() []string {
	names := []string{
		"libcuda.so.1",
		"/usr/lib/wsl/lib/libcuda.so.1",                  // WSL 2
		"/run/opengl-driver/lib/libcuda.so.1",            // NixOS
		"/usr/local/nvidia/lib64/libcuda.so.1",           // Kubernetes device plugins
		"/opt/nvidia/lib64/libcuda.so.1",                 // Flatcar
		"/var/lib/nvidia/lib64/libcuda.so.1",             // Container-Optimized OS
		"/home/kubernetes/bin/nvidia/lib64/libcuda.so.1", // GKE
	}
	if goruntime.GOARCH == "arm64" {
		names = append(names,
			"/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1", // Jetson
			"/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1")  // Jetson before JetPack 5
	}
	return append(names, "libcuda.so")
}
