// Package purecuda is the root of a CUDA driver runtime for Go that needs no cgo. It has no code
// of its own.
//
// Import [github.com/purecuda/purecuda/runtime] to use a GPU, and
// [github.com/purecuda/purecuda/pool] to use all of them. Write kernels in Go with
// [github.com/purecuda/purecuda/gpu]. Test without a GPU with
// [github.com/purecuda/purecuda/driver/drivertest].
//
// README.md has a first kernel, docs/README.md lists the documents, and docs/architecture.md
// shows how the packages stand on each other.
package purecuda
