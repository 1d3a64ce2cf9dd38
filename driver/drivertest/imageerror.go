package drivertest

import (
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ptx"
	"github.com/purecuda/purecuda/internal/ptx/exec"
)

// imageError is why an image cannot be loaded, with the log of the driver's
// compiler in its own words.
type imageError struct {
	result driver.Result
	log    string
}

// unknownFormat is what the driver says of data that is no image.
const unknownFormat = "error   : Binary format for key='0', ident='' is not recognized"

const abortion = "\nptxas fatal   : Ptx assembly aborted due to errors"

// fatal makes an error at a line.
func fatal(r driver.Result, line int, format string, args ...any) *imageError {
	return &imageError{r, fmt.Sprintf("ptxas application ptx input, line %d; fatal   : %s", line, fmt.Sprintf(format, args...))}
}

// parsing makes an error of the text at a line.
func parsing(line int, near, why string) *imageError {
	e := fatal(driver.ResultInvalidPTX, line, "Parsing error near '%s': syntax error, %s", near, why)
	e.log += abortion
	return e
}

// instruction makes an error of an instruction at a line.
func instruction(line int, format string, args ...any) *imageError {
	return &imageError{driver.ResultInvalidPTX,
		fmt.Sprintf("ptxas application ptx input, line %d; error   : ", line) + fmt.Sprintf(format, args...) + abortion}
}

// aborted makes an error without a line.
func aborted(why string) *imageError {
	return &imageError{driver.ResultInvalidPTX, "ptxas error   : " + why + abortion}
}

func unresolved(name string) *imageError {
	return &imageError{driver.ResultInvalidPTX, fmt.Sprintf("ptxas fatal   : Unresolved extern variable '%s'", name)}
}

// tooMuch makes an error of a kernel that needs more memory than a device has.
func tooMuch(kernel, space string, bytes, limit uint64) *imageError {
	return &imageError{driver.ResultInvalidPTX, fmt.Sprintf(
		"ptxas error   : Entry function '%s' uses too much %s data (%#x bytes, %#x max)", kernel, space, bytes, limit)}
}

// compilerError turns an error of the reader or of the interpreter's compiler into
// what ptxas would say. What the interpreter cannot run is marked as such.
func compilerError(err error) *imageError {
	if e, ok := errors.AsType[*ptx.SyntaxError](err); ok {
		return parsing(e.Line, e.Token, e.Msg)
	}
	if e, ok := errors.AsType[*exec.InvalidError](err); ok {
		return instruction(e.Line, "Illegal use of instruction '%s' in kernel '%s': %s", e.Instruction, e.Kernel, e.Msg)
	}
	if e, ok := errors.AsType[*exec.UnsupportedError](err); ok {
		text := fmt.Sprintf("Instruction '%s'", e.Instruction)
		if e.Kernel != "" {
			text += fmt.Sprintf(" in kernel '%s'", e.Kernel)
		}
		text += " is unknown to the simulated driver"
		if e.Reason != "" {
			text += ": " + e.Reason
		}
		return instruction(e.Line, "%s", text)
	}
	return aborted(err.Error())
}
