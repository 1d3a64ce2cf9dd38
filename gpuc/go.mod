module github.com/purecuda/purecuda/gpuc

go 1.26.0

require (
	github.com/purecuda/purecuda v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/tools v0.52.0
)

require (
	github.com/ebitengine/purego v0.11.3 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)

// In this repository the compiler is built and tested with the purecuda beside it. Go ignores the
// line in the module of somebody who requires the compiler.
replace github.com/purecuda/purecuda => ..
