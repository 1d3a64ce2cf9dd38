//go:build !android && !cgo && !purecuda_nohost

//lint:file-ignore U1000 assembly calls it: see rt0_linux_*.s

package dlhost

const (
	loaderPath  = "/lib64/ld-linux-x86-64.so.2\x00"
	libraryDirs = "/lib/x86_64-linux-gnu\x00/usr/lib/x86_64-linux-gnu\x00/lib64\x00/usr/lib64\x00/lib\x00/usr/lib\x00\x00"

	machine  = 62 // EM_X86_64
	relative = 8  // R_X86_64_RELATIVE

	sysClose     = 3
	sysLseek     = 8
	sysMmap      = 9
	sysMprotect  = 10
	sysMunmap    = 11
	sysPread64   = 17
	sysOpenat    = 257
	sysFaccessat = 269
)
