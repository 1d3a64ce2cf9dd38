package pool

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/internal/artifact"
	"github.com/purecuda/purecuda/internal/machine"
)

// breakEvenFormat is the version of what a file holds. The way of measuring is a part of it.
const breakEvenFormat = "purecuda break-even 3"

// machine describes what the times depend on.
func (b *BreakEven) machine() string {
	var gpus []string
	count := map[string]int{}
	for _, d := range b.pool.Devices() {
		name := fmt.Sprintf("%s (%v)", d.Name, d.Capability)
		if count[name]++; count[name] == 1 {
			gpus = append(gpus, name)
		}
	}
	slices.Sort(gpus)
	for i, name := range gpus {
		if n := count[name]; n > 1 {
			gpus[i] = fmt.Sprintf("%d x %s", n, name)
		}
	}
	version := "CUDA " + b.pool.rt.Version().String()
	if module := machine.DriverVersion(); module != "" {
		version = module + ", " + version
	}
	return fmt.Sprintf("%s, driver %s; %s, GOMAXPROCS %d", strings.Join(gpus, ", "), version, machine.CPU(), goruntime.GOMAXPROCS(0))
}

// file opens the folder of compiled code and returns the key of b there.
func (b *BreakEven) file() (*artifact.Cache, artifact.Key) {
	digest := sha256.New()
	for _, part := range []string{breakEvenFormat, b.config.Name, fmt.Sprint(b.config.Largest), b.machine()} {
		fmt.Fprintf(digest, "%d:%s\n", len(part), part)
	}
	var key artifact.Key
	digest.Sum(key[:0])
	return artifact.Open(artifact.Config{Dir: b.config.Dir, Logger: b.config.Logger}), key
}

// load returns what is on disk, or nil. The cache logs files that are damaged or not the user's.
func (b *BreakEven) load() *BreakEvenReport {
	cache, key := b.file()
	content, ok := cache.Get(key)
	if !ok {
		return nil
	}
	r, err := decodeBreakEven(content)
	if err == nil && (r.Name != b.config.Name || r.Machine != b.machine()) {
		err = fmt.Errorf("it is of %q on %s", r.Name, r.Machine)
	}
	if err != nil {
		if b.config.Logger != nil {
			b.config.Logger.Warn("purecuda: a kept break-even is not used and is measured again", slog.String("name", b.config.Name), slog.Any("error", err))
		}
		return nil
	}
	r.Kept = true
	return r
}

func decodeBreakEven(content []byte) (*BreakEvenReport, error) {
	r := new(BreakEvenReport)
	if err := json.Unmarshal(content, r); err != nil {
		return nil, err
	}
	last := 0
	for _, p := range r.Points {
		if p.Items <= last || p.CPU < 0 || p.GPU < 0 {
			return nil, errors.New("its points are not in order, or negative")
		}
		last = p.Items
	}
	return r, r.settle()
}

// store keeps what was measured. What goes wrong is logged by the cache, and costs a measurement.
func (b *BreakEven) store(r *BreakEvenReport) {
	content, err := json.Marshal(r)
	if err != nil {
		return // no value of the type fails
	}
	cache, key := b.file()
	cache.Put(key, content)
}
