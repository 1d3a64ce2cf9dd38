package runtime

import (
	"errors"
	"strings"

	"github.com/purecuda/purecuda/driver"
)

// Policy says whether CUDA is used.
type Policy string

const (
	// PolicyAuto uses CUDA where it is available. It is the zero value's meaning.
	PolicyAuto Policy = "auto"
	// PolicyOff does not touch the driver: no library is looked for.
	PolicyOff Policy = "off"
	// PolicyRequired makes absence a fault, with an error of kind driver.ErrRequired. That is not of kind
	// driver.ErrDriverLibraryUnavailable, so that no part of a program takes it as a reason to use the CPU.
	// After a loss the work does not go to the CPU either: see [Runtime.FallBack].
	PolicyRequired Policy = "required"
)

// PolicyVariable names the environment variable with the policy of [Open] and [Global] when
// the caller gives none.
const PolicyVariable = "PURECUDA_POLICY"

// ParsePolicy reads a policy, ignoring case and space around it. The empty string
// is PolicyAuto; any other word is an error of kind driver.ErrInvalidArgument.
func ParsePolicy(s string) (Policy, error) {
	switch p := Policy(strings.ToLower(strings.TrimSpace(s))); p {
	case PolicyAuto, PolicyOff, PolicyRequired:
		return p, nil
	case "":
		return PolicyAuto, nil
	}
	return "", driver.Errorf(driver.ErrInvalidArgument, "policy %q: want auto, off or required", s)
}

// required makes a fault of an absence. Nothing of its kind stays in the error, or [errors.Is] would find it.
func required(absence error) error {
	e := driver.Errorf(driver.ErrRequired, "the policy is required, and CUDA is absent: %v", absence)
	var cause *driver.Error
	if errors.As(absence, &cause) {
		e.Op, e.Code, e.Attempts = cause.Op, cause.Code, cause.Attempts
	}
	return e
}

// Policy of the runtime.
func (rt *Runtime) Policy() Policy {
	if rt == nil || rt.life == nil {
		return PolicyOff
	}
	return rt.cfg.policy
}
