//go:build linux && !android && (amd64 || arm64) && !cgo && !purecuda_nohost

//lint:file-ignore U1000 assembly calls it: see rt0_linux_*.s

package dlhost

// The entry point walks lists that are one string: each item ends with a zero byte, and
// the list with another one. A table of strings would hold pointers, which nobody has
// relocated yet.

// hints are files that say that a GPU may be there. They are the control devices of the driver, of
// WSL 2 and of Tegra, the driver's page in /proc, and the program that makes missing devices.
const hints = "/dev/nvidiactl\x00/dev/dxg\x00/dev/nvmap\x00/proc/driver/nvidia/version\x00" +
	"/usr/bin/nvidia-modprobe\x00/sbin/nvidia-modprobe\x00/run/current-system/sw/bin/nvidia-modprobe\x00\x00"

// libraryNames are the libraries that purego makes a program ask for.
const libraryNames = "libc.so.6\x00libdl.so.2\x00libpthread.so.0\x00\x00"

// cachePath is where ldconfig notes the folders that glibc is told to search.
const cachePath = "/etc/ld.so.cache\x00"

const (
	loaderVariable = Variable + "="         // auto, host or static
	driverVariable = "PURECUDA_DRIVER_PATH" // driver.PathVariable; driver lies above this package
	nvrtcVariable  = "PURECUDA_NVRTC_PATH"  // as much for nvrtc
	searchVariable = "LD_LIBRARY_PATH"
)
