package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/purecuda/purecuda/kernels"
)

// coreChunks is how many chunks all cores hash together, and coreRounds how often each: some
// 10 ms for one core.
const (
	coreChunks = 1024
	coreRounds = 127
)

// cores is the Go face of the SHA-256 kernel on 1, 2, 4 and more cores.
func cores(m *Machine) *suite {
	work := newHashWork(coreChunks, coreRounds)
	digests := make([]kernels.Digest, coreChunks)
	s := &suite{open: func(context.Context, *closers) error { return nil }}
	for _, cores := range upTo(m.Cores) {
		s.add(Case{Name: fmt.Sprintf("SHA256/cores=%d", cores), Hashes: work.hashes(),
			op: each(func() error { return hashOn(cores, work, digests) })})
	}
	return s
}

// hashOn hashes with so many goroutines, each an equal part.
func hashOn(goroutines int, work hashWork, digests []kernels.Digest) error {
	errs := make([]error, goroutines)
	var all sync.WaitGroup
	for i := range goroutines {
		lo, hi := len(work.chunks)*i/goroutines, len(work.chunks)*(i+1)/goroutines
		all.Go(func() {
			errs[i] = kernels.SHA256ChunksCPU(work.data, work.chunks[lo:hi], work.rounds, digests[lo:hi])
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
