//go:build !unix

package artifact

import "io/fs"

// private is not checked: Windows has access lists and not modes, and the user's cache
// directory, %LocalAppData%, is closed to others by default.
func private(string, fs.FileInfo) error { return nil }
