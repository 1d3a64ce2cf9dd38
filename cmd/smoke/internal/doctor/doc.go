// Package doctor finds out what a machine has of CUDA, what of it works, and what to do
// about the rest.
//
//	report, err := doctor.Examine(ctx, doctor.Config{})
//	err = report.WriteText(os.Stdout)
//
// It is what people run when a driver is broken, so nothing that a driver does may take the
// report down. Everything that calls C, or opens a device file, is a [Request] to a probe,
// which runs in a child process of the same program with a time limit ([Child]). The
// probe tells what it has found before each step that may not return, so that a crash or a
// hang costs that step and no other.
//
// A library may print: what the probe tells stands in lines of its own that begin with a
// mark. A child ends itself when its parent is gone.
package doctor
