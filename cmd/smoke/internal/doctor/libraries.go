package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
)

// Installed is what the probe of one of NVIDIA's other libraries found: cuBLAS, cuFFT, NCCL.
type Installed struct {
	Name    string   `json:"name"`
	Outcome Outcome  `json:"outcome"`
	Failure *Failure `json:"failure,omitempty"`
	Taken   string   `json:"taken,omitempty"`
	File    string   `json:"file,omitempty"`
	Version string   `json:"version,omitempty"`
	// CUDA is the major version of CUDA that a driver has at least for it, or 0 where nobody knows.
	CUDA  int    `json:"needs_cuda,omitempty"`
	Ended string `json:"ended,omitempty"`
}

// installed looks for a library and loads it.
func installed(name string, tell func(Finding)) {
	i := slices.IndexFunc(library.Further, func(d library.Description) bool { return d.Name == name })
	if i < 0 {
		tell(Finding{Error: &Failure{Kind: string(driver.ErrInvalidArgument), Detail: fmt.Sprintf("there is no library %q", name)}})
		return
	}
	d, found := library.Further[i], &Installed{Name: name, Outcome: Fault}
	tell(Finding{Doing: "loading it", Library: found})
	lib, err := d.Open()
	if err == nil {
		found.Taken, found.File = lib.Path(), loadedFile(lib.Path())
		if v := lib.Version(); v != (library.Version{}) {
			found.Version = v.String()
			if d.CUDA != nil {
				found.CUDA = d.CUDA(v)
			}
		}
	}
	switch {
	case err == nil:
		found.Outcome = Available
	case errors.Is(err, driver.ErrLibraryUnavailable):
		found.Outcome, found.Failure = Absent, failureOf(err)
	default:
		found.Failure = failureOf(err)
	}
	tell(Finding{Library: found})
}

// askLibraries looks for all of them at the same time.
func askLibraries(ctx context.Context, probe Prober) []Installed {
	all := make([]Installed, len(library.Further))
	var probes sync.WaitGroup
	for i, d := range library.Further {
		probes.Go(func() {
			f, ended := probe(ctx, Request{Probe: ProbeLibrary, Library: d.Name})
			all[i] = Installed{Name: d.Name, Outcome: Fault}
			if f.Library != nil {
				all[i] = *f.Library
			}
			all[i].Ended = ended
		})
	}
	probes.Wait()
	return all
}

// tooNew tells whether the driver is too old for a library. Where either is not known it does not.
func (r *Report) tooNew(i Installed) bool {
	return i.CUDA != 0 && r.Driver.Version != 0 && i.CUDA > r.Driver.Version/1000
}

func (r *Report) libraryRows(row rows) {
	for _, i := range r.Libraries {
		switch {
		case i.Outcome == Absent:
			row(i.Name, "not found")
		case i.Outcome != Available || i.Ended != "":
			row(i.Name, stateOf(i.Outcome, i.Failure, i.Ended))
		default:
			works := ""
			switch {
			case r.tooNew(i):
				works = fmt.Sprintf("needs a driver of CUDA %d, found %s", i.CUDA, r.Driver.CUDA)
			case i.CUDA != 0 && r.Driver.Version != 0:
				works = "works with driver " + r.Driver.CUDA
			}
			row(i.Name, orElse(i.Version, "of an unknown version"), withFile(i.Taken, i.File), works)
		}
	}
}

// aboutLibraries finds what is wrong. That there is none is normal.
func (r *Report) aboutLibraries() {
	for k, i := range r.Libraries {
		variable := library.Further[k].Variable
		switch {
		case i.Ended != "":
			r.add("libraries", "reinstall it, or point "+variable+" at another one", "the probe of %s %s", i.Name, i.Ended)
		case i.Outcome == Absent && os.Getenv(variable) != "":
			r.add("libraries", "correct it, or unset it to look in the usual places", "%s names %s, which is not there", variable, os.Getenv(variable))
		case i.Outcome == Fault && i.Failure != nil:
			r.add("libraries", "reinstall it, or point "+variable+" at another one", "%s", i.Failure.Detail)
		case i.Outcome == Available && r.tooNew(i):
			r.add("libraries", fmt.Sprintf("update the driver, or install %s of CUDA %d", i.Name, r.Driver.Version/1000),
				"%s %s needs a driver of CUDA %d, found %s", i.Name, i.Version, i.CUDA, r.Driver.CUDA)
		}
	}
}
