package one_test

import "github.com/purecuda/purecuda/tools/apilist/testdata/used/one"

func ExampleExemplary() { one.Exemplary() }

func init() { one.Tested() }
