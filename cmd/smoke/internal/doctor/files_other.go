//go:build !unix

package doctor

import "io/fs"

func owner(info fs.FileInfo) string { return info.Mode().String() }
