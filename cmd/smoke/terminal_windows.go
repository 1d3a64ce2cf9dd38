package main

import (
	"os"
	"syscall"
	"unsafe"
)

var getConsoleScreenBufferInfo = syscall.NewLazyDLL("kernel32.dll").NewProc("GetConsoleScreenBufferInfo")

// terminalWidth returns the columns of a terminal, 0 where it does not know them, and whether the file is one.
func terminalWidth(file *os.File) (columns int, ok bool) {
	var mode uint32
	if syscall.GetConsoleMode(syscall.Handle(file.Fd()), &mode) != nil {
		return 0, false
	}
	var info struct {
		size, cursor             [2]int16
		attributes               uint16
		left, top, right, bottom int16
		largest                  [2]int16
	}
	if got, _, _ := getConsoleScreenBufferInfo.Call(file.Fd(), uintptr(unsafe.Pointer(&info))); got == 0 {
		return 0, true
	}
	return int(info.right) - int(info.left) + 1, true
}
