package runtime

import "sync"

// global is the package's only state: the runtime that a process shares.
var global = sync.OnceValue(func() *Runtime { return newRuntime(nil) })

// Global returns the runtime that all parts of the process share, opened with the
// policy of PURECUDA_POLICY when it is first asked for. It is there in every case:
// whether CUDA can be used, its Outcome and Err tell. Do not close it while other
// parts of the program may use it.
func Global() *Runtime { return global() }

// Probe asks the shared runtime; see [Runtime.Probe].
func Probe(label string) (*Backend, error) { return Global().Probe(label) }

// Refresh makes the shared runtime look for CUDA again; see [Runtime.Refresh].
func Refresh() error { return Global().Refresh() }
