package driver_test

import (
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
)

// A program that calls purego itself asks first.
func ExampleHasLoader() {
	open := func(name string) error {
		if ok, reason := driver.HasLoader(); !ok {
			return errors.New(name + ": " + reason)
		}
		// handle, err := purego.Dlopen(name, purego.RTLD_NOW)
		return nil
	}
	fmt.Println(open("libfoo.so.1"))
	// Output: <nil>
}
