package main

import (
	"context"
	"errors"
	"strings"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/runtime"
)

// openGPU is the gpuOpener of the program: the driver of this machine.
func openGPU(ctx context.Context, devices []string) (probe, job.Engine, error) {
	return openRuntime(ctx, devices, newGPUEngine)
}

// engineMaker makes the engine on devices that work. It owns the runtime from then on, unless that fails.
type engineMaker func(ctx context.Context, rt *runtime.Runtime, usable []runtime.Device) (job.Engine, error)

// openRuntime looks for GPUs with the given options of the runtime.
func openRuntime(ctx context.Context, devices []string, build engineMaker, options ...runtime.Option) (probe, job.Engine, error) {
	// The caller knows what absence means under its policy; here it is only found.
	options = append(options, runtime.WithPolicy(runtime.PolicyAuto), runtime.WithPinned(arena.PinnedConfig{Limit: job.MemoryBudget}))
	if len(devices) > 0 {
		options = append(options, runtime.WithDevices(devices...))
	}
	rt, err := runtime.Open(options...)
	if errors.Is(err, driver.ErrInvalidArgument) {
		return probe{outcome: outcomeFault, reason: reasonOf(err)}, nil, err
	}
	if err != nil {
		return probe{outcome: outcomeFault, reason: reasonOf(err)}, nil, nil
	}
	if rt.Outcome() == runtime.Absent {
		return probe{outcome: outcomeAbsent, reason: reasonOf(rt.Err())}, nil, rt.Close()
	}
	found := probe{outcome: outcomeAvailable}
	var usable []runtime.Device
	for _, d := range rt.Devices() {
		entry := device{
			Ordinal: d.Ordinal, Name: d.Name, UUID: "GPU-" + d.UUID.String(), PCIBusID: d.PCIBusID,
			ComputeCapability: d.Capability.String(), SMs: d.Multiprocessors, TotalBytes: d.TotalBytes,
			Used: d.Err == nil,
		}
		if d.Err != nil {
			entry.Unusable = d.Err.Error()
		} else {
			usable = append(usable, d)
		}
		found.devices = append(found.devices, entry)
	}
	engine, err := build(ctx, rt, usable)
	if err != nil {
		return found, nil, errors.Join(err, rt.Close())
	}
	return found, engine, nil
}

// reasonOf is an error in the words of the report. For a library that could not be
// opened, the attempts say more than the summary.
func reasonOf(err error) *reason {
	var e *driver.Error
	if !errors.As(err, &e) {
		return &reason{Kind: string(driver.ErrDriverCallFailed), Detail: err.Error()}
	}
	detail := strings.TrimPrefix(err.Error(), string(e.Kind)+": ")
	if len(e.Attempts) > 0 {
		var tried []string
		for _, a := range e.Attempts {
			tried = append(tried, a.String())
		}
		detail = noLibrary + ": " + strings.Join(tried, "; ")
	}
	return &reason{Kind: string(e.Kind), Detail: detail}
}
