package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/purecuda/purecuda/internal/job"
)

// The input of the main job.
const (
	jobChunk          = 4 << 10
	jobBytesGPU       = 1 << 30
	jobBytesCPU       = 128 << 20
	jobBytesSimulated = 256 << 10
	jobBlock          = 1 << 20 // of the file is random, the rest repeats it
)

// jobs are the main job of the program over a file in the page cache. They run on 1, 2, 4 and more
// devices and on all cores, or without a device on 1, 2, 4 and more cores. The time is that of the
// job itself, from the first read to the root, without opening the workers.
func jobs(m *Machine, sizes Sizes) *suite {
	size := int64(jobBytesCPU)
	switch {
	case m.Simulated:
		size = jobBytesSimulated
	case len(m.Devices) > 0:
		size = jobBytesGPU
	}
	size = min(size, Sizes{Largest: sizes.Largest, Host: sizes.Host}.limit())
	var in *job.Input
	s := &suite{open: func(ctx context.Context, c *closers) (err error) {
		in, err = writeInput(ctx, c, size)
		return err
	}}
	add := func(where string, engine func() job.Engine) {
		s.add(Case{Name: fmt.Sprintf("Job/%s/size=%s", where, SizeName(size)), Bytes: size,
			op: func(ctx context.Context, n int) (timed time.Duration, err error) {
				for range n {
					took, err := runJob(ctx, in, engine())
					if err != nil {
						return 0, err
					}
					timed += took
				}
				return timed, nil
			}})
	}
	if len(m.Devices) > 0 {
		for _, n := range upTo(len(m.Devices)) {
			add(fmt.Sprintf("on=gpu/devices=%d", n), func() job.Engine { return m.Engine(n) })
		}
		add(fmt.Sprintf("on=cpu/cores=%d", m.Cores), func() job.Engine { return job.NewCPU(m.Cores) })
		return s
	}
	for _, n := range upTo(m.Cores) {
		add(fmt.Sprintf("on=cpu/cores=%d", n), func() job.Engine { return job.NewCPU(n) })
	}
	return s
}

func runJob(ctx context.Context, in *job.Input, engine job.Engine) (time.Duration, error) {
	verify, err := job.ParseVerify("none")
	if err != nil {
		return 0, err
	}
	result, err := job.Run(ctx, in, engine, job.Options{ChunkBytes: jobChunk, Verify: verify})
	return result.Elapsed, errors.Join(err, engine.Close())
}

// writeInput makes the file, which goes when the suite is closed.
func writeInput(ctx context.Context, c *closers, size int64) (*job.Input, error) {
	f, err := os.CreateTemp("", "smoke-bench-*")
	if err != nil {
		return nil, fmt.Errorf("the input of the job: %w", err)
	}
	c.later(func() error { return os.Remove(f.Name()) })
	block := make([]byte, min(jobBlock, size))
	r := rand.NewPCG(1, 2)
	for i := range block {
		block[i] = byte(r.Uint64())
	}
	for left := size; left > 0 && err == nil; left -= int64(len(block)) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
		_, err = f.Write(block[:min(left, int64(len(block)))])
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("writing %s of input for the job, in a folder that TMPDIR can change: %w", SizeName(size), err)
	}
	return job.List(ctx, f.Name())
}
