package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/runtime"
)

const (
	// maxSimulated is the largest number of simulated GPUs.
	maxSimulated = 64
	// simulatedBatchBytes is small, so that an input of a few MB is spread over the
	// devices: 32 chunks of 4 KiB are one warp.
	simulatedBatchBytes = 128 << 10
)

// simulated is a gpuOpener of n GPUs that are simulated on the CPU. They run the same
// PTX as real ones.
func simulated(n int) gpuOpener {
	return func(ctx context.Context, devices []string) (probe, job.Engine, error) {
		return openSimulated(ctx, devices, drivertest.Config{Devices: simulatedDevices(n)}, newGPUEngine)
	}
}

func simulatedDevices(n int) []drivertest.DeviceConfig {
	device := drivertest.H100()
	device.Name = "simulated H100"
	return drivertest.Devices(n, device)
}

func openSimulated(ctx context.Context, devices []string, config drivertest.Config, build engineMaker) (probe, job.Engine, error) {
	gpu := drivertest.New(config)
	found, engine, err := openRuntime(ctx, devices, build, runtime.WithDriver(gpu))
	if engine == nil {
		return found, nil, errors.Join(err, gpu.Close())
	}
	return found, &simulatedEngine{engine, gpu}, err
}

// simulatedEngine closes the simulated driver after the engine that runs on it.
type simulatedEngine struct {
	job.Engine
	gpu *drivertest.Driver
}

func (e *simulatedEngine) Places() []job.Place {
	places := e.Engine.Places()
	for i := range places {
		places[i].BatchBytes = simulatedBatchBytes
	}
	return places
}

// Close also tells what the program did wrong with the driver.
func (e *simulatedEngine) Close() error {
	errs := []error{e.Engine.Close(), e.gpu.Close()}
	for _, f := range e.gpu.Findings() {
		errs = append(errs, fmt.Errorf("simulated driver: %v", f))
	}
	if e.gpu.Sticky() == 0 { // else nothing can be freed
		for _, leak := range e.gpu.Leaks() {
			errs = append(errs, fmt.Errorf("simulated driver: leaked: %s", leak))
		}
	}
	return errors.Join(errs...)
}
