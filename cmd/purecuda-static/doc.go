// Purecuda-static changes a finished linux program so that it starts without a loader in the system. So
// one binary runs on glibc, on musl, and on an image with no other file.
//
//	CGO_ENABLED=0 go build -o server .
//	purecuda-static server
//
// or, in one step, for every program that a go command links:
//
//	CGO_ENABLED=0 go build -toolexec=purecuda-static -o server .
//
// The program has to import package driver, as every program that uses purecuda does. It may be
// stripped or position-independent. Two fields of the file change. The entry address becomes that
// of an entry point in purecuda, and the request for an interpreter becomes an unused entry. The
// size stays the same. The same file always gives the same result. A second run changes nothing.
//
// The changed program is a new file that takes the name of the old one when it is complete. It
// keeps the mode, the owner and symbolic links to it. A file with another name (a hard link) or
// with extended attributes is an error, because the new file would lose them. A FILE is read and
// never run. With -toolexec the go command says what to run.
//
//	purecuda-static FILE...          change the files
//	purecuda-static -check FILE...   change nothing; check that all of them are changed
//
// # Exit codes
//
//	0  done, or nothing to do: the file asks for no interpreter
//	1  a file cannot be changed, or -check found one that is not changed; the reason is
//	   on stderr
//	2  bad usage
//
// With -toolexec the code comes from the tool that ran. It is 1 if the linked program asks for an
// interpreter and cannot be changed: a binary that silently needs glibc is worse than no binary.
// Files that are not ELF files for linux are skipped.
package main
