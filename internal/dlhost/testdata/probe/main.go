// Probe is started by the tests of package dlhost in many places. It uses nothing but
// purego and dlhost, so that it builds with versions of Go that purecuda does not
// support.
//
//	probe                  nothing
//	probe status           the mode and its reason, on one line
//	probe library FILE     open testdata/foreign.c and call it, where there is a loader
//	probe stress [FILE]    everything that a start could have broken
package main

import (
	"fmt"
	"os"

	"github.com/ebitengine/purego"

	"github.com/purecuda/purecuda/internal/dlhost"
)

func main() {
	err := error(nil)
	switch args := append(os.Args[1:], "", ""); args[0] {
	case "":
	case "status":
		s := dlhost.Current()
		fmt.Println(s.Mode, s.Reason)
	case "library":
		err = library(args[1])
	case "stress":
		err = stress(args[1])
	default:
		err = fmt.Errorf("unknown command %q", args[0])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

// library opens a library and calls a function of it.
func library(path string) error {
	if !dlhost.HasLoader() {
		fmt.Println("no loader")
		return nil
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	fn, err := purego.Dlsym(handle, "answer")
	if err != nil {
		return err
	}
	got, _, _ := purego.SyscallN(fn, 20)
	if int32(got) != 41 {
		return fmt.Errorf("answer(20) is %d", int32(got))
	}
	fmt.Println("called")
	return nil
}
