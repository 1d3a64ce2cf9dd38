// Package two uses package one.
package two

import "github.com/purecuda/purecuda/tools/apilist/testdata/used/one"

type doer struct{}

func (doer) Do() one.Given { return one.Given{} }

func use() {
	_ = one.Called().Read
	_ = one.Red
	one.NewFile().Open()
	one.Generic(use)
	_ = one.Pair{1, 2}
}
