// The benchmarks of run guard. They are built with the purecuda of this tree, and with that of another commit
// (scripts/gpu-bundle --against), so that they use few names and no test packages. Each subject has a file of its
// own: what does not compile with a commit is left out, and said.
module github.com/purecuda/purecuda/tools/guard

go 1.26.0

require (
	github.com/purecuda/purecuda v0.0.0
	github.com/purecuda/purecuda/libs v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/ebitengine/purego v0.11.3 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)

replace (
	github.com/purecuda/purecuda => ../../
	github.com/purecuda/purecuda/libs => ../../libs
)
