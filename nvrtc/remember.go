package nvrtc

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/artifact"
)

// facts are what of an NVRTC belongs to the key of what it compiles, and decides on targets.
type facts struct {
	Version driver.Version
	Build   string
	Archs   []int // ascending
}

// loaded is an NVRTC with what is known of it.
type loaded struct {
	api   API
	facts *facts
}

func factsOf(api API) (*facts, error) {
	f, err := abilitiesOf(api)
	if err == nil {
		f.Build = api.Build()
	}
	return f, err
}

// abilitiesOf are the facts that decide on targets.
func abilitiesOf(api API) (*facts, error) {
	if api == nil {
		return nil, errNoAPI()
	}
	version, r := api.Version()
	if r != Success {
		return nil, failed(api, "nvrtcVersion", r)
	}
	archs, r := api.SupportedArchs()
	if r != Success {
		return nil, failed(api, "nvrtcGetSupportedArchs", r)
	}
	return &facts{Version: version, Archs: archs}, nil
}

func (f *facts) equal(o *facts) bool { return fmt.Sprint(*f) == fmt.Sprint(*o) }

// possible reports whether a file can be right about an NVRTC.
func (f *facts) possible() bool {
	return f.Version >= minVersion && f.Version <= maxVersion && len(f.Archs) > 0 && len(f.Archs) <= maxArchs &&
		slices.Min(f.Archs) >= minArch && slices.Max(f.Archs) <= maxArch
}

// record is an NVRTC that an earlier process has found, in the disk cache. Loading the library
// takes some ms, which is most of the time to a kernel that was compiled before; with the record
// nothing has to be loaded.
type record struct {
	File     string // with all links resolved
	Size     int64
	Modified int64 // in ns of Unix
	Facts    facts
}

// newRecord describes the file of a library, or is nil where that is not known.
func newRecord(file string, f *facts) *record {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil
	}
	return &record{File: file, Size: info.Size(), Modified: info.ModTime().UnixNano(), Facts: *f}
}

// recall reads the record of a process that had to look in the same places, if its library is
// still the same file.
func recall(cache *artifact.Cache) *facts {
	content, ok := cache.Get(recordKey())
	if !ok {
		return nil
	}
	r := &record{}
	if json.Unmarshal(content, r) != nil || !r.Facts.possible() {
		return nil
	}
	info, err := os.Stat(r.File)
	if err != nil || info.Size() != r.Size || info.ModTime().UnixNano() != r.Modified {
		return nil
	}
	return &r.Facts
}

// remember keeps a record for later processes.
func remember(cache *artifact.Cache, file string, f *facts) {
	r := newRecord(file, f)
	if r == nil {
		return
	}
	if content, err := json.Marshal(r); err == nil {
		cache.Put(recordKey(), content)
	}
}

// recordKey is the digest of what decides which library [Open] finds, as far as it can be told
// without opening one. Where an NVRTC is installed beside the one that was found, without a trace
// in here, the old one keeps being right for what it has compiled. The next compile loads the new
// one.
func recordKey() (key artifact.Key) {
	d := digest{sha256.New()}
	d.add("purecuda nvrtc record 1", goruntime.GOOS, goruntime.GOARCH)
	for _, variable := range []string{PathVariable, "CUDA_PATH", "CUDA_HOME", "LD_LIBRARY_PATH", "PATH", "VIRTUAL_ENV", "CONDA_PREFIX"} {
		d.add(variable, os.Getenv(variable))
	}
	// What the loader knows of the system's folders, and the toolkit that is the default one.
	loader := ""
	if info, err := os.Stat("/etc/ld.so.cache"); err == nil {
		loader = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
	}
	toolkit, _ := filepath.EvalSymlinks("/usr/local/cuda")
	d.add(loader, toolkit)
	d.Sum(key[:0])
	return key
}
