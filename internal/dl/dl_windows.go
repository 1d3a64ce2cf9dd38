//go:build amd64 || arm64

package dl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"
)

var (
	kernel32        = syscall.NewLazyDLL("kernel32.dll")
	getModuleHandle = kernel32.NewProc("GetModuleHandleW")
	loadLibraryEx   = kernel32.NewProc("LoadLibraryExW")
)

const (
	// A bare name is looked up in the program's folder and in System32 only,
	// never in the current directory: a DLL planted there would run in our name.
	searchDefaultDirs = 0x00001000 // LOAD_LIBRARY_SEARCH_DEFAULT_DIRS
	// The dependencies of a DLL given by its path lie beside it.
	searchDLLLoadDir = 0x00000100 // LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR

	errorModNotFound = syscall.Errno(126) // ERROR_MOD_NOT_FOUND
)

func mapped(name string) uintptr {
	p, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return 0
	}
	handle, _, _ := getModuleHandle.Call(uintptr(unsafe.Pointer(p)))
	return handle
}

func open(name string) (uintptr, error) {
	p, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return 0, fmt.Errorf("bad library name %q: %w", name, err)
	}
	search := uintptr(searchDefaultDirs)
	if filepath.IsAbs(name) {
		search |= searchDLLLoadDir
	}
	handle, _, err := loadLibraryEx.Call(uintptr(unsafe.Pointer(p)), 0, search)
	if handle != 0 {
		return handle, nil
	}
	// Windows returns this code for a missing dependency as well and does not say
	// which file it means; where a path was given we can look.
	if errors.Is(err, errorModNotFound) && !(filepath.IsAbs(name) && exists(name)) {
		return 0, ErrNotFound
	}
	return 0, err
}

func symbol(handle uintptr, name string) uintptr {
	address, err := syscall.GetProcAddress(syscall.Handle(handle), name)
	if err != nil {
		return 0
	}
	return address
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
