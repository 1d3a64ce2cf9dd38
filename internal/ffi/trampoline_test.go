//go:build !purecuda_portable

package ffi_test

const portable = false
