package main

import (
	"errors"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/job"
)

// The exit codes; doc.go says when.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitRequired = 3
)

// failure is an error of the program itself.
type failure struct {
	kind   string
	detail string
	code   int
	usage  bool // --help can help
}

func (f *failure) Error() string { return f.kind + ": " + f.detail }
func (f *failure) Kind() string  { return f.kind }

// usageKinds are the kinds of the job that say that the request cannot be carried
// out as it stands.
var usageKinds = []job.Kind{job.InvalidArgument, job.InputMissing, job.InputEmpty, job.InputUnsupported, job.DirectoryLoop}

func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	for _, kind := range usageKinds {
		if errors.Is(err, kind) {
			return exitUsage
		}
	}
	return exitFailed
}

// describe splits an error into its kind and the rest of its text. Where an engine
// failed and its error says of what kind it is, that is
// the kind to tell.
func describe(err error) (kind, detail string) {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.kind, f.detail
	}
	e, ok := errors.AsType[*job.Error](err)
	if !ok {
		return string(job.EngineFailed), err.Error()
	}
	kind, detail = string(e.Kind), strings.TrimPrefix(err.Error(), string(e.Kind)+": ")
	if cause, ok := errors.AsType[*driver.Error](e.Err); ok {
		kind = string(cause.Kind)
		detail = strings.TrimPrefix(detail, kind+": ")
	}
	return kind, detail
}
