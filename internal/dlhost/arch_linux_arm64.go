//go:build !android && !cgo && !purecuda_nohost

//lint:file-ignore U1000 assembly calls it: see rt0_linux_*.s

package dlhost

const (
	loaderPath  = "/lib/ld-linux-aarch64.so.1\x00"
	libraryDirs = "/lib/aarch64-linux-gnu\x00/usr/lib/aarch64-linux-gnu\x00/lib64\x00/usr/lib64\x00/lib\x00/usr/lib\x00\x00"

	machine  = 183  // EM_AARCH64
	relative = 1027 // R_AARCH64_RELATIVE

	sysFaccessat = 48
	sysOpenat    = 56
	sysClose     = 57
	sysLseek     = 62
	sysPread64   = 67
	sysMunmap    = 215
	sysMmap      = 222
	sysMprotect  = 226
)
