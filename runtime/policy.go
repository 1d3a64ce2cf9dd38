package runtime

import (
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
	// PolicyRequired makes absence an error of [Open].
	PolicyRequired Policy = "required"
)

// PolicyVariable names the environment variable with the policy of [Open] when
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

// Policy is that of the runtime.
func (rt *Runtime) Policy() Policy {
	if rt == nil || rt.life == nil {
		return PolicyOff
	}
	return rt.cfg.policy
}
