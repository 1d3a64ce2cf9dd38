package runtime

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ptx"
	"github.com/purecuda/purecuda/internal/zero"
)

// Image is code for GPUs: PTX, or machine code as a cubin or a fatbin.
type Image struct {
	// Arch is the compute capability that the image is for, 90 for 9.0. It may be
	// 0: PTX says it itself, and other images are then tried.
	Arch int
	Code []byte
}

// Module is a loaded image. It is safe for concurrent use.
type Module struct {
	object
	handle  driver.Module
	image   Image
	log     driver.JITLog
	kernels kernels

	names      map[string]string                      // in the image, by name expression
	signatures func() (map[string][]ptx.Param, error) // of the kernels; not of a lease, whose module has them
	cached     *cachedModule                          // of which this is a lease
}

var ptxTarget = regexp.MustCompile(`(?m)^\s*\.target\s+sm_(\d+)([a-z]?)`)

var ptxVersion = regexp.MustCompile(`(?m)^\s*\.version\s+(\d+\.\d+)`)

// isPTX tells PTX from machine code. PTX is text.
func (i Image) isPTX() bool {
	head := i.Code[:min(len(i.Code), 4)]
	return !bytes.Equal(head, []byte("\x7fELF")) && !bytes.Equal(head, []byte{0x50, 0xed, 0x55, 0xba})
}

// candidate is an image in the order that they are tried in.
type candidate struct {
	Image
	ptx    bool
	suffix string // of the target: "a" for sm_90a
	reason string // why it is not tried
}

// candidates sorts images: machine code for exactly this kind of device first,
// then PTX, the newest target first; what cannot run is kept with the reason.
func candidates(images []Image, device Capability) []candidate {
	list := make([]candidate, 0, len(images))
	for _, image := range images {
		c := candidate{Image: image, ptx: image.isPTX()}
		if m := ptxTarget.FindSubmatch(image.Code); c.ptx && m != nil {
			if c.Arch == 0 {
				c.Arch, _ = strconv.Atoi(string(m[1])) // or the largest number, which no device is
			}
			c.suffix = string(m[2])
		}
		arch := device.Arch()
		specific := c.suffix == "a" && c.Arch != arch || // sm_90a runs on 9.0 only
			c.suffix == "f" && c.Arch/10 != device.Major // sm_100f on every 10.x
		switch {
		case c.Arch == 0:
		case c.ptx && specific:
			c.reason = fmt.Sprintf("PTX for sm_%d%s", c.Arch, c.suffix)
		case c.ptx && c.Arch > arch:
			c.reason = fmt.Sprintf("PTX for compute capability %d.%d", c.Arch/10, c.Arch%10)
		case !c.ptx && (c.Arch/10 != device.Major || c.Arch > arch):
			c.reason = fmt.Sprintf("machine code for compute capability %d.%d", c.Arch/10, c.Arch%10)
		}
		list = append(list, c)
	}
	sort.SliceStable(list, func(i, j int) bool {
		if list[i].ptx != list[j].ptx {
			return !list[i].ptx
		}
		return list[i].Arch > list[j].Arch
	})
	return list
}

func (c candidate) String() string {
	kind := "machine code"
	if c.ptx {
		kind = "PTX"
		if m := ptxVersion.FindSubmatch(c.Code); m != nil {
			kind += " " + string(m[1])
		}
	}
	if c.Arch != 0 {
		kind += fmt.Sprintf(" for sm_%d%s", c.Arch, c.suffix)
	}
	return kind
}

// LoadModule loads the best image that the device and the driver accept. An image
// that the driver says does not suit (209, 218, 222) makes it try the next one.
// Loading PTX compiles it, which takes milliseconds to seconds unless the driver has
// it in its cache. Loading may wait for the work on the device.
//
// If none can be loaded the error is of kind driver.ErrModuleLoadFailed, says what
// became of each image, and has the compiler's log. Other kinds (out of memory, lost,
// closed) are not the images' fault, and end the search.
func (c *Context) LoadModule(images ...Image) (*Module, error) {
	if c == nil || c.rt == nil {
		return nil, errNothing("context")
	}
	return c.loadModule(context.Background(), images)
}

func (c *Context) loadModule(ctx context.Context, images []Image) (m *Module, err error) {
	err = c.traceModule(ctx, "load", func() (int, bool, error) {
		if m, err = c.loadOne(images); err != nil {
			return 0, false, err
		}
		return len(m.image.Code), false, nil
	})
	return m, err
}

// loadOne loads the best of the images.
func (c *Context) loadOne(images []Image) (*Module, error) {
	if len(images) == 0 {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "no image to load")
	}
	for i, image := range images {
		if len(bytes.Trim(image.Code, " \t\r\n\x00")) == 0 {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "image %d of %d is empty", i, len(images))
		}
	}
	var reasons, logs []string
	var last error
	for _, candidate := range candidates(images, c.device.Capability) {
		if candidate.reason != "" {
			reasons = append(reasons, candidate.reason+" does not run on "+c.device.Capability.String())
			continue
		}
		var log driver.JITLog
		const op = "cuModuleLoadDataEx"
		o, err := c.create(moduleEntry, uint64(len(candidate.Code)), op, func() (uint64, driver.Result) {
			var m driver.Module
			var r driver.Result
			m, log, r = c.api.ModuleLoadData(candidate.Code, driver.JIT{LineInfo: candidate.ptx && bytes.Contains(candidate.Code, []byte("\n\t.loc "))}) // a profiler shows lines
			return uint64(m), r
		})
		if err == nil {
			var text []byte
			if candidate.ptx {
				text = candidate.Code
			}
			m := &Module{object: o, handle: driver.Module(o.entry.handle), image: candidate.Image, log: log, signatures: signaturesOf(text)}
			trackGC(m, &m.object)
			return m, nil
		}
		e, ok := err.(*driver.Error)
		if !ok || e.Kind != driver.ErrDriverCallFailed || e.Op != op {
			return nil, err // out of memory, lost, closed: another image will not help
		}
		last = err
		reasons = append(reasons, fmt.Sprintf("%v: %s", candidate, c.explain(candidate, e.Code, log.Error)))
		if log.Error != "" {
			logs = append(logs, log.Error)
		}
		if !e.Code.ImageUnusable() {
			break
		}
	}
	e := driver.Errorf(driver.ErrModuleLoadFailed, "no image could be loaded: %s", strings.Join(reasons, "; "))
	e.Device, e.Err, e.Log = c.device.Ordinal, last, strings.TrimSpace(strings.Join(logs, "\n"))
	return nil, e
}

// explain says what a failure to load means for the caller, with the first line of the log.
func (c *Context) explain(image candidate, r driver.Result, log string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(log), "\n")
	if line = strings.TrimSpace(line); line != "" {
		line = ": " + line
	}
	version := c.rt.Version()
	switch r {
	case driver.ResultUnsupportedPTXVersion: // it says all that the log does
		return fmt.Sprintf("driver %v cannot read %v; update the driver or build for an older PTX version", version, image)
	case driver.ResultNoBinaryForGPU:
		return fmt.Sprintf("has no code for compute capability %v; build for it, or ship PTX", c.device.Capability) + line
	case driver.ResultInvalidPTX:
		return "driver " + version.String() + " cannot compile it" + line
	}
	return r.Text() + line
}

// Close waits for the calls that use the module and for the work of the device, and unloads
// it with its kernels. It may be called twice. What a graph uses is unloaded after the graph.
// What comes from CachedModule or Compile stays loaded for others, as long as there is room.
func (m *Module) Close() error {
	if m == nil || m.ctx == nil {
		return nil
	}
	m.kernels.close(m.ctx.state.Done())
	if m.cached == nil {
		return m.object.Close()
	}
	if !m.gate.Close(m.ctx.state.Done()) {
		return nil
	}
	m.cleanup.Stop()
	m.ctx.modules.release(m.cached, m.gate)
	return m.ctx.evict(m.ctx.rt.cfg.moduleCache, nil)
}

// lowered is the name in the image of a name expression, and any other name itself.
func (m *Module) lowered(name string) string {
	if lowered, ok := m.names[name]; ok {
		return lowered
	}
	return name
}

// Image is the image that was chosen.
func (m *Module) Image() Image { return zero.Or(m).image }

// Log is what the driver's compiler said.
func (m *Module) Log() driver.JITLog { return zero.Or(m).log }

// Handle is the module as package driver takes it.
func (m *Module) Handle() driver.Module { return zero.Or(m).handle }

// Variable finds a variable of the module: its address and size in bytes. The name is that in
// the image, or a name expression of the program that was compiled ("&table").
func (m *Module) Variable(name string) (driver.DevicePtr, uint64, error) {
	if m == nil || m.ctx == nil {
		return 0, 0, errNothing("module")
	}
	if err := m.hold(); err != nil {
		return 0, 0, err
	}
	defer m.leave()
	var ptr driver.DevicePtr
	var bytes uint64
	err := m.ctx.call(func() error {
		var r driver.Result
		ptr, bytes, r = m.ctx.api.ModuleGetGlobal(m.handle, m.lowered(name))
		if r == driver.ResultNotFound {
			return driver.Errorf(driver.ErrInvalidArgument, "the module has no variable %q", name)
		}
		return m.ctx.bind.Failed("cuModuleGetGlobal", r)
	})
	return ptr, bytes, err
}
