package nvrtc

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/artifact"
	"github.com/purecuda/purecuda/internal/flight"
)

// Linker links code of several sources with NVIDIA's nvJitLink, at most once across processes: it keeps what it has linked on
// disk, as a [Compiler] does. It is safe for concurrent use and needs no closing.
//
// https://docs.nvidia.com/cuda/nvjitlink/index.html
type Linker struct {
	lib     *library.Library
	build   string
	cache   *artifact.Cache
	flights flight.Group[artifact.Key, *Artifact]
	log     *slog.Logger
}

// OpenLinker makes a linker of the nvJitLink of this machine, 12.3 or newer. It looks in the places of
// library.NVJITLINK.Candidates, which PURECUDA_NVJITLINK_PATH replaces by one file. It reads files, and may block on them.
//
// The error is of kind [driver.ErrLibraryUnavailable] where there is none, and says what to install. It is of kind
// [driver.ErrDriverLibraryLoadFailed] where one is there and cannot be used.
func OpenLinker(config Config) (*Linker, error) {
	lib, err := library.NVJITLINK.Open()
	if err != nil {
		return nil, err
	}
	l := &Linker{lib: lib, build: buildOf(lib.File()), log: config.Logger}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.cache = artifact.Open(artifact.Config{Dir: config.CacheDir, Limit: config.CacheLimit, Logger: config.Logger})
	return l, nil
}

// Version is nvJitLink's.
func (l *Linker) Version() driver.Version {
	if l == nil {
		return 0
	}
	v := l.lib.Version()
	return driver.Version(1000*v[0] + 10*v[1])
}

// Link links parts to machine code for one architecture, or to PTX if all parts are LTO-IR. A part is LTO-IR
// ([LTOIR], or nvcc -dlto), PTX, a relocatable cubin or fatbin, an object file of the host, or an archive of these:
//
//	linked, err := linker.Link(ctx, nvrtc.Target{Kind: nvrtc.CUBIN, Arch: 90}, []driver.LinkPart{
//		{Kind: driver.LinkLTOIR, Data: first.Code, Name: "first"}, {Kind: driver.LinkLTOIR, Data: second.Code, Name: "second"},
//	})
//
// options are nvJitLink's further ones, such as -ftz=true or -lineinfo. -arch, -lto and -ptx come from the target and the parts.
//
// What was linked before comes from the disk cache, in the time of a SHA-256 of the parts. Linking takes 10 ms to many seconds.
// When ctx ends, the wait ends with its cause, and the link runs on and fills the cache.
//
// Parts that do not fit together are an error of kind [driver.ErrModuleLoadFailed] with the linker's log, in which errors.Is finds
// the [library.Status]. Failures are not cached. The Artifact may be shared: do not change it.
func (l *Linker) Link(ctx context.Context, t Target, parts []driver.LinkPart, options ...string) (*Artifact, error) {
	switch {
	case l == nil || l.lib == nil:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a linker that was never made")
	case ctx == nil:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "Link takes a context that is not nil")
	case len(parts) == 0:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "no part to link")
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	if t.Kind == LTOIR {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "linked code is a cubin or PTX, and no LTO-IR")
	}
	options = append(linkOptions(t, parts), options...)
	key := l.key(t, parts, options)
	linked, _, err := l.flights.Do(ctx, key, func(context.Context) (*Artifact, error) {
		if content, ok := l.cache.Get(key); ok {
			if linked, ok := decodeArtifact(content, t); ok {
				return linked, nil
			}
		}
		linked, err := l.link(t, parts, options)
		if err == nil {
			l.cache.Put(key, linked.encode())
			l.log.Debug("purecuda: linked", "target", t.String(), "parts", len(parts), "bytes", len(linked.Code), "took", linked.CompileTime)
		}
		return linked, err
	})
	return linked, err
}

// linkOptions are what the target and the parts ask for. An architecture is always that of machine code.
func linkOptions(t Target, parts []driver.LinkPart) []string {
	options := []string{fmt.Sprintf("-arch=sm_%d%s", t.Arch, t.Suffix)}
	for _, part := range parts {
		if part.Kind != driver.LinkPTX && part.Kind != driver.LinkCubin { // all others may have LTO-IR in them
			options = append(options, "-lto")
			break
		}
	}
	if t.Kind == PTX {
		options = append(options, "-ptx")
	}
	return options
}

func (l *Linker) key(t Target, parts []driver.LinkPart, options []string) (key artifact.Key) {
	d := digest{sha256.New()}
	d.add("purecuda nvJitLink 1", l.lib.Version().String(), l.build, t.Kind.String())
	d.add(options...)
	for _, part := range parts {
		d.add(fmt.Sprint(part.Kind), part.Name, string(part.Data))
	}
	d.Sum(key[:0])
	return key
}

// inputTypes are nvJitLinkInputType, which differ from the driver's.
var inputTypes = map[driver.LinkKind]int32{
	driver.LinkCubin: 1, driver.LinkPTX: 2, driver.LinkLTOIR: 3, driver.LinkFatbin: 4, driver.LinkObject: 5, driver.LinkLibrary: 6,
}

// link calls nvJitLink on one thread. It keeps something of a link in the thread that has made it, and a call on another one corrupts memory.
// That ends the process, in C too (12.4 and 13.0).
func (l *Linker) link(t Target, parts []driver.LinkPart, options []string) (*Artifact, error) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	begin := time.Now()
	texts, ok := cStrings(options)
	if !ok {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "an option of %q has a NUL, where a string of C ends", options)
	}
	var handle uintptr
	err := l.lib.Call("nvJitLinkCreate", &handle, uint32(len(options)), texts)
	if handle != 0 {
		defer func() { _ = l.lib.Call("nvJitLinkDestroy", &handle) }()
	}
	for i := 0; err == nil && i < len(parts); i++ {
		kind, known := inputTypes[parts[i].Kind]
		if !known || len(parts[i].Data) == 0 {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "part %d of %d, %q, has %d bytes of kind %v: want some, of a known kind",
				i, len(parts), parts[i].Name, len(parts[i].Data), parts[i].Kind)
		}
		err = l.lib.Call("nvJitLinkAddData", handle, kind, parts[i].Data, uint64(len(parts[i].Data)), parts[i].Name)
	}
	if err == nil {
		err = l.lib.Call("nvJitLinkComplete", handle)
	}
	form := map[Kind]string{CUBIN: "nvJitLinkGetLinkedCubin", PTX: "nvJitLinkGetLinkedPtx"}[t.Kind]
	var code []byte
	if err == nil {
		code, err = l.output(handle, form)
	}
	if err != nil {
		return nil, l.failed(handle, len(parts), options, err)
	}
	if t.Kind == PTX {
		code = []byte(strings.TrimRight(string(code), "\x00"))
	}
	if len(code) == 0 {
		return nil, l.failed(handle, len(parts), options, fmt.Errorf("%s made nothing", form))
	}
	return &Artifact{Target: t, Code: code, Log: l.text(handle, "nvJitLinkGetInfoLog"), CompileTime: time.Since(begin)}, nil
}

// output calls a function that fills memory, of which another one tells the size.
func (l *Linker) output(handle uintptr, function string) ([]byte, error) {
	var size uint64
	if err := l.lib.Call(function+"Size", handle, &size); err != nil {
		return nil, err
	}
	if size > maxOutput {
		return nil, driver.Errorf(driver.ErrDriverCallFailed, "%sSize succeeded with %d bytes: want %d at most", function, size, maxOutput)
	}
	out := make([]byte, size)
	if size == 0 {
		return out, nil
	}
	return out, l.lib.Call(function, handle, out)
}

// text is a log, or "".
func (l *Linker) text(handle uintptr, function string) string {
	if handle == 0 {
		return ""
	}
	text, err := l.output(handle, function)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.TrimRight(string(text), "\x00"))
}

// failed is the error of parts that could not be linked. It says what the log begins with.
func (l *Linker) failed(handle uintptr, parts int, options []string, cause error) error {
	log := l.text(handle, "nvJitLinkGetErrorLog")
	first, _, _ := strings.Cut(log, "\n")
	if first == "" {
		first = cause.Error()
	}
	e := driver.Errorf(driver.ErrModuleLoadFailed, "%d parts could not be linked: %s [nvJitLink %v, %s]", parts, first, l.Version(), strings.Join(options, " "))
	e.Err, e.Log = cause, log
	return e
}
