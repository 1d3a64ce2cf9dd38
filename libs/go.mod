module github.com/purecuda/purecuda/libs

go 1.26.0

require (
	github.com/purecuda/purecuda v0.0.0
	github.com/stretchr/testify v1.12.1
	gonum.org/v1/gonum v0.17.0
)

require (
	github.com/ebitengine/purego v0.11.3 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)

// In this repository the module is built and tested with the purecuda beside it. Go ignores the
// line in the module of somebody who requires it.
replace github.com/purecuda/purecuda => ../
