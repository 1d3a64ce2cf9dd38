package job

import (
	"context"
	"errors"
	"io/fs"
)

// Kind says what sort of failure an [Error] is. A Kind is itself an error, so that
// errors.Is(err, job.DigestMismatch) works.
type Kind string

const (
	// InputMissing: the input path does not exist.
	InputMissing Kind = "InputMissing"
	// InputEmpty: there is not one byte to hash.
	InputEmpty Kind = "InputEmpty"
	// InputUnsupported: the input path is neither a regular file nor a folder.
	InputUnsupported Kind = "InputUnsupported"
	// DirectoryLoop: a link inside the input leads back to a folder above it.
	DirectoryLoop Kind = "DirectoryLoop"
	// ReadFailed: a file or folder could not be listed, opened or read.
	ReadFailed Kind = "ReadFailed"
	// FileChanged: a file is not any more what it was when it was listed or opened.
	FileChanged Kind = "FileChanged"
	// DigestMismatch: the engine's digest is not the one crypto/sha256 computes.
	DigestMismatch Kind = "DigestMismatch"
	// EngineFailed: the engine could not set up a worker or hash a batch.
	EngineFailed Kind = "EngineFailed"
	// OutputFailed: the digest list could not be written.
	OutputFailed Kind = "OutputFailed"
	// InvalidArgument: a value is outside what the job accepts.
	InvalidArgument Kind = "InvalidArgument"
	// Canceled: the context ended before the job did.
	Canceled Kind = "Canceled"
)

func (k Kind) Error() string { return string(k) }

// Error is the error type of this package. Its text is
// "Kind: path: detail: cause", each part where it is known.
type Error struct {
	Kind   Kind
	Path   string // the file or folder concerned, as it can be found from the working directory
	Detail string
	Err    error
}

func (e *Error) Error() string {
	text := string(e.Kind)
	if e.Path != "" {
		text += ": " + Printable(e.Path)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// fileError builds an Error about path from an error of package os, whose own
// mention of the path it drops.
func fileError(kind Kind, path string, err error) *Error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return &Error{Kind: kind, Path: path, Detail: pe.Op, Err: pe.Err}
	}
	return &Error{Kind: kind, Path: path, Err: err}
}

// canceled is the error for a context that has ended.
func canceled(ctx context.Context) *Error {
	return &Error{Kind: Canceled, Detail: "stopped before the root was complete", Err: context.Cause(ctx)}
}
