package dl

import (
	"encoding/binary"
	"os"
	"unsafe"
)

// secure is AT_SECURE of <linux/auxvec.h>: the kernel says by it that the process has gained privileges.
const secure = 23

func gainedPrivileges() bool {
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() {
		return true
	}
	list, err := os.ReadFile("/proc/self/auxv")
	return err == nil && says(list, secure)
}

// says reports whether the auxiliary vector list has a value other than 0 for the key.
func says(list []byte, key uint64) bool {
	const word = int(unsafe.Sizeof(uintptr(0)))
	at := func(i int) uint64 {
		if word == 4 {
			return uint64(binary.NativeEndian.Uint32(list[i:]))
		}
		return binary.NativeEndian.Uint64(list[i:])
	}
	for ; len(list) >= 2*word; list = list[2*word:] {
		if at(0) == key {
			return at(word) != 0
		}
	}
	return false
}
