//go:build !cgo

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "this was built without cgo, whose calls it measures: build it with CGO_ENABLED=1, which needs a C compiler")
	os.Exit(3)
}
