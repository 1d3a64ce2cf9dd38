package main

import (
	"io"
	"os"
	"regexp"
	"strconv"

	"github.com/purecuda/purecuda/internal/job"
)

// stdoutPath is the --out that means stdout.
const stdoutPath = "-"

// openList opens the list of digests that --out names. What the shell has opened for this
// process, such as /dev/stdout or /dev/fd/3, is written to and not replaced. If that is stdout, it is
// for digests only, and the report goes to stderr.
func (a *app) openList(in *job.Input, path string) (*job.ListFile, error) {
	stdout, stderr := a.stdout.Writer, a.stderr
	switch {
	case path == stdoutPath || isFile(stdout, path):
		if a.form == formJSON {
			return nil, usageError("--%s %s and --%s both write to stdout; name a file, or drop one of them", flagOut, path, flagJSON)
		}
		a.stdout.Writer = stderr
		return streamList(stdout, path), nil
	case isFile(stderr, path):
		return streamList(stderr, path), nil
	case descriptor.MatchString(path):
		if _, err := os.Stat(path); err == nil {
			n, _ := strconv.Atoi(descriptor.FindStringSubmatch(path)[1]) // a file that is there has a small number
			return streamList(os.NewFile(uintptr(n), path), path), nil
		}
	}
	if err := job.CheckListPath(in, path); err != nil {
		return nil, err
	}
	return job.CreateList(path)
}

// descriptor is the path of an open file of this process.
var descriptor = regexp.MustCompile(`^(?:/dev|/proc/self)/fd/([0-9]+)$`)

// isFile reports whether path leads to the file that out is.
func isFile(out io.Writer, path string) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	open, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(open, named)
}

func streamList(out io.Writer, path string) *job.ListFile {
	return job.StreamList(out, path, isTerminal(out))
}
