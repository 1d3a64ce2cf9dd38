package main

import (
	"context"

	"github.com/purecuda/purecuda/internal/job"
)

// outcome is what looking for a GPU found.
type outcome string

const (
	outcomeUnknown   outcome = "unknown"   // not looked for: the request failed before
	outcomeOff       outcome = "off"       // not looked for: the policy forbids it
	outcomeAvailable outcome = "available" // at least one usable device
	outcomeAbsent    outcome = "absent"    // no usable CUDA on this machine
	outcomeFault     outcome = "fault"     // it is there, and broken
)

// probe is what looking for a GPU found, in the words of the report.
type probe struct {
	outcome outcome
	reason  *reason // of an absence or fault
	devices []device
}

// reason says why. In the JSON document it is also the form of an error.
type reason struct {
	Kind   string `json:"kind"`   // an error kind such as DriverLibraryUnavailable
	Detail string `json:"detail"` // the whole story: every candidate and why it failed
}

// gpuOpener looks for GPUs and opens an engine on them: on all usable ones, or on those
// named, by ordinal or UUID. It is not called under the policy off.
//
// With the outcome available it returns an engine, and with absent and fault none. An error is for
// a request that the machine cannot meet, such as a device that does not exist, or for a failure to
// open the engine. Absence and fault are no errors, their reason is in the probe. A *driver.Error
// is reported under its kind; the kind InvalidArgument means exit code 2.
type gpuOpener func(ctx context.Context, devices []string) (probe, job.Engine, error)
