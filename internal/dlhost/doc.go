// Package dlhost lets one finished linux binary start on every image: with glibc, with
// musl, or with no file but itself.
//
// purego, through which purecuda loads the CUDA driver, makes a CGO_ENABLED=0 program
// ask for glibc's loader. Where that is missing (FROM scratch, distroless/static,
// Alpine) the kernel refuses the program before a line of Go has run. This package
// holds another entry point. The command purecuda-static makes a finished file start
// there, and takes the request for the loader out. The entry point then decides:
//
//   - where there is a sign of a GPU, and a glibc that is complete, it maps the loader
//     itself, as the kernel would have, and lets it start the program. Libraries can be
//     loaded ([Hosted]);
//   - everywhere else it takes back what purego told the Go runtime about C, and starts
//     it as a plain static program: nothing can be loaded, and [Current] says why
//     ([Static]).
//
// Every program that imports package driver has the entry point. It is built in two steps,
// or in one with go build -toolexec=purecuda-static:
//
//	CGO_ENABLED=0 go build -o server .
//	purecuda-static server
//
// A program that never meets the command starts as it always did ([Ordinary]).
//
// In a [Static] process a call of C ends the program, because the Go runtime has no way
// to make it. purecuda asks [HasLoader] before each of its own; a program that calls purego
// itself asks driver.HasLoader.
//
// # The environment variable
//
// PURECUDA_LOADER is read before the Go runtime starts:
//
//	auto    the default: as above
//	host    the loader is used without a sign of a GPU, if there is a complete glibc
//	static  the loader is never used
//
// A program that gains privileges by being started (set-user-ID, file capabilities)
// starts as with auto. With any other word a program starts as with auto as well, and package dl opens no library: its error
// names the word.
//
// # Limits
//
// The entry point exists on linux/amd64 and linux/arm64, in programs built without cgo.
// Build tag purecuda_nohost leaves it out.
//
// It cannot be measured by go build -cover: what counts is set up by a runtime that is
// not there yet. A coverage build that is treated with purecuda-static has to leave this
// package out of -coverpkg, which go build -cover does by itself in modules that import
// it.
package dlhost
