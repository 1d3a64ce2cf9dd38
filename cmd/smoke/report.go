package main

import (
	"encoding/hex"
	goruntime "runtime"
	"time"

	"github.com/purecuda/purecuda/cmd/smoke/internal/doctor"
	"github.com/purecuda/purecuda/internal/job"
)

// schemaVersion of the JSON document. New members do not change it.
const schemaVersion = 1

// report is the JSON document; doc.go says what the members mean.
type report struct {
	SchemaVersion int        `json:"schema_version"`
	Tool          tool       `json:"tool"`
	Host          host       `json:"host"`
	Outcome       outcome    `json:"outcome"`
	Reason        *reason    `json:"reason"`
	Devices       []device   `json:"devices"`
	Job           *jobReport `json:"job"`
	Error         *reason    `json:"error"`
}

type tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Go      string `json:"go"`
}

type host struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
}

// device is one GPU, usable or not.
type device struct {
	Ordinal           int    `json:"ordinal"`
	Name              string `json:"name"`
	UUID              string `json:"uuid,omitempty"`
	PCIBusID          string `json:"pci_bus_id,omitempty"`
	ComputeCapability string `json:"compute_capability,omitempty"`
	SMs               int    `json:"sms,omitempty"`
	TotalBytes        uint64 `json:"total_bytes,omitempty"`
	Used              bool   `json:"used"`               // the job runs on it
	Unusable          string `json:"unusable,omitempty"` // why it cannot be used
}

type jobReport struct {
	Input          string  `json:"input"`
	Files          int64   `json:"files"`
	Bytes          int64   `json:"bytes"`
	ChunkBytes     int     `json:"chunk_bytes"`
	Chunks         int64   `json:"chunks"`
	Rounds         uint32  `json:"rounds"`
	Root           string  `json:"root,omitempty"`
	Verified       int64   `json:"verified"`
	VerifyMode     string  `json:"verify_mode,omitempty"`
	VerifyFraction float64 `json:"verify_fraction"`
	VerifySeed     uint64  `json:"verify_seed"`
	Skipped        skipped `json:"skipped"`
	Out            string  `json:"out,omitempty"`
	Seconds        float64 `json:"seconds"`
	SetupSeconds   float64 `json:"setup_seconds"`
	GBPerSecond    float64 `json:"gb_per_s"`
	RanOn          string  `json:"ran_on,omitempty"`
	Workers        int     `json:"workers,omitempty"`
	BatchBytes     int     `json:"batch_bytes,omitempty"`
	Shares         []share `json:"shares,omitempty"`
	Children       []child `json:"children,omitempty"`

	// Partial says that the job was interrupted. Then DoneChunks and DoneBytes were hashed,
	// from the first on, and there is no root.
	Partial    bool   `json:"partial,omitempty"`
	DoneChunks *int64 `json:"done_chunks,omitempty"`
	DoneBytes  *int64 `json:"done_bytes,omitempty"`
}

// share is what one GPU, or the CPU, did.
type share struct {
	On          string  `json:"on"` // "cpu", "gpu 0 (NVIDIA H100)"
	Workers     int     `json:"workers"`
	Chunks      int64   `json:"chunks"`
	Bytes       int64   `json:"bytes"`
	BusySeconds float64 `json:"busy_seconds"` // with work, copies included
	GBPerSecond float64 `json:"gb_per_s"`     // of the whole time of the job
}

// child is what became of the child processes of a GPU, with --isolate.
type child struct {
	Ordinal   int    `json:"ordinal"`
	Started   uint64 `json:"started"` // that got ready
	Died      uint64 `json:"died"`    // or did not get ready
	LastDeath string `json:"last_death,omitempty"`
}

// skipped names the entries of a folder that have no content to hash. All are
// counted, the first job.MaxSkips are named.
type skipped struct {
	Count   int64      `json:"count"`
	Entries []job.Skip `json:"entries"`
}

func newReport() *report {
	return &report{
		SchemaVersion: schemaVersion,
		Tool:          tool{Name: "smoke", Version: doctor.ReadBuild().Version, Go: goruntime.Version()},
		Host:          host{OS: goruntime.GOOS, Arch: goruntime.GOARCH, CPUs: cpuWorkers()},
		Outcome:       outcomeUnknown,
		Devices:       []device{},
	}
}

func (r *report) setProbe(p probe) {
	r.Outcome, r.Reason = p.outcome, p.reason
	if p.devices != nil {
		r.Devices = p.devices
	}
}

// newJobReport holds what is known before the first byte is read.
func newJobReport(in *job.Input, c config) *jobReport {
	r := &jobReport{
		Input:      job.Printable(in.Path),
		Files:      int64(len(in.Files)),
		Bytes:      in.Bytes,
		ChunkBytes: c.chunk,
		Chunks:     in.Chunks(c.chunk),
		Rounds:     c.rounds,
		VerifySeed: c.verify.Seed,
		Skipped:    skipped{Count: in.Skips, Entries: make([]job.Skip, len(in.Skipped))},
	}
	for i, s := range in.Skipped {
		r.Skipped.Entries[i] = job.Skip{Path: job.Printable(s.Path), Reason: s.Reason}
	}
	if c.out != "" {
		r.Out = job.Printable(c.out)
	}
	return r
}

// complete adds what the job found.
func (r *jobReport) complete(result job.Result) {
	r.Root = hex.EncodeToString(result.Root[:])
	r.Chunks, r.Bytes = result.Chunks, result.Bytes
	r.Verified, r.VerifyMode, r.VerifyFraction = result.Verified, result.VerifyMode, result.VerifyFraction
	r.Seconds, r.SetupSeconds = result.Elapsed.Seconds(), result.Setup.Seconds()
	rate := func(bytes int64) float64 {
		if r.Seconds <= 0 { // a coarse clock may see no time pass
			return 0
		}
		return float64(bytes) / r.Seconds / 1e9
	}
	r.GBPerSecond = rate(result.Bytes)
	for _, s := range result.Shares {
		r.Shares = append(r.Shares, share{On: s.Name, Workers: s.Workers, Chunks: s.Chunks, Bytes: s.Bytes,
			BusySeconds: s.Busy.Seconds(), GBPerSecond: rate(s.Bytes)})
	}
	r.RanOn, r.Workers, r.BatchBytes = result.RanOn, result.Workers, result.BatchBytes
}

// interrupted adds how far the job came.
func (r *jobReport) interrupted(chunks, bytes int64, elapsed time.Duration) {
	r.Partial, r.DoneChunks, r.DoneBytes, r.Seconds = true, &chunks, &bytes, elapsed.Seconds()
}
