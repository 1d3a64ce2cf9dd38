package drivertest

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ptx"
	"github.com/purecuda/purecuda/internal/ptx/exec"
)

// Limits of a kernel in bytes.
const (
	maxStaticShared = 48 << 10
	maxLocal        = 512 << 10 // of a thread
	maxParams       = 32764
)

// image is a module that was read and compiled. Contexts share it.
type image struct {
	target  int // sm_XX
	entries []*entry
	program *exec.Program
	globals []exec.Global
	// unknown are the kernels that the interpreter cannot run, and log says why.
	unknown map[string]bool
	log     string
	// lines is the text, for findings to quote.
	lines []string
}

// entry is a kernel.
type entry struct {
	name        string
	params      []param
	paramBytes  uint64
	bound       int    // threads of a block by .maxntid, .reqntid or the device
	maxThreads  int    // the same, and what its registers allow
	reqBlock    [3]int // .reqntid, or zero
	staticBytes int    // of shared memory
	localBytes  int    // of a thread
	constBytes  int    // of the module
	registers   int    // of a thread
}

// param is a parameter of a kernel in the argument block.
type param struct{ offset, bytes uint64 }

// readImage reads and compiles PTX text for a device of the given capability. Kernels
// that are bound to Go functions are read and not compiled.
func readImage(data []byte, version driver.Version, major, minor int, bound map[string]KernelFunc) (*image, *imageError) {
	if bad := checkFormat(data); bad != nil {
		return nil, bad
	}
	text, _, _ := bytes.Cut(data, []byte{0})
	target, bad := checkHeader(text, version, major, minor)
	if bad != nil {
		return nil, bad
	}
	m, err := ptx.Parse(text)
	if err != nil {
		return nil, compilerError(err)
	}
	for _, e := range m.Entries {
		if bound[e.Name] != nil {
			forget(e)
		}
	}
	img := &image{target: target, lines: strings.Split(string(text), "\n")}
	if bad := img.compile(m); bad != nil {
		return nil, bad
	}
	img.globals = img.program.Globals()
	if bad := img.checkGlobals(); bad != nil {
		return nil, bad
	}
	for _, f := range m.Entries {
		if f.Declared || img.unknown[f.Name] {
			continue
		}
		e, bad := img.newEntry(f, bound[f.Name] != nil)
		if bad != nil {
			return nil, bad
		}
		img.entries = append(img.entries, e)
	}
	return img, nil
}

// compile translates the kernels. A kernel with an instruction that the interpreter does not
// know does not keep the others from running; an image with no other is refused.
func (img *image) compile(m *ptx.Module) *imageError {
	program, unknown, err := exec.Compile(m)
	if err != nil {
		return compilerError(err)
	}
	img.program, img.unknown = program, map[string]bool{}
	for _, u := range unknown {
		img.unknown[u.Kernel] = true
		img.log += compilerError(u).log + "\n"
	}
	known := func(f *ptx.Function) bool { return !f.Declared && !img.unknown[f.Name] }
	if len(unknown) > 0 && !slices.ContainsFunc(m.Entries, known) {
		return compilerError(unknown[0])
	}
	return nil
}

// without is the answer to who asks for a kernel that the image does not give.
func (img *image) without(name string) driver.Result {
	if img.unknown[name] {
		return driver.ResultNotSupported
	}
	return driver.ResultNotFound
}

// emCUDA is the machine of a cubin in its ELF header.
const emCUDA = 190

// checkFormat refuses what is no text. Machine code is no code for this device, so that a
// program which ships PTX beside it loads that.
func checkFormat(data []byte) *imageError {
	const ptxOnly = ", and the simulated driver runs PTX only"
	text, _, _ := bytes.Cut(data, []byte{0})
	switch {
	case bytes.HasPrefix(data, []byte{0x50, 0xed, 0x55, 0xba}):
		return &imageError{driver.ResultNoBinaryForGPU, "the image is a fatbin" + ptxOnly}
	case bytes.HasPrefix(data, []byte("\x7fELF")):
		if len(data) < 20 || binary.LittleEndian.Uint16(data[18:]) != emCUDA {
			return &imageError{driver.ResultInvalidImage, "the image is no cubin" + ptxOnly}
		}
		return &imageError{driver.ResultNoBinaryForGPU, "the image is a cubin" + ptxOnly}
	case len(bytes.TrimSpace(text)) == 0:
		return &imageError{driver.ResultInvalidImage, "the image is empty"}
	}
	return nil
}

// checkHeader tells whether a driver and a device take PTX, before all of it is read:
// it may be in a version that nobody here knows.
func checkHeader(text []byte, version driver.Version, major, minor int) (target int, bad *imageError) {
	h, err := ptx.ParseHeader(text)
	if h.VersionLine == 0 {
		return 0, &imageError{driver.ResultInvalidImage, unknownFormat}
	}
	if err == nil || h.TargetLine != 0 { // the version was read
		v := h.Version
		if newest := newestPTX(version); v.AtLeast(newest/10, newest%10+1) {
			return 0, fatal(driver.ResultUnsupportedPTXVersion, h.VersionLine,
				"Unsupported .version %d.%d; current version is '%d.%d'", v.Major, v.Minor, newest/10, newest%10)
		}
	}
	switch {
	case err != nil:
		return 0, compilerError(err)
	case h.TargetLine == 0:
		return 0, fatal(driver.ResultInvalidPTX, h.VersionLine, "Missing .target directive")
	}
	// A target may stand behind options.
	for _, word := range append([]string{h.Target}, h.TargetOptions...) {
		number, ok := strings.CutPrefix(word, "sm_")
		if !ok {
			continue
		}
		digits := strings.TrimRight(number, "af")
		if target, err = strconv.Atoi(digits); err != nil {
			return 0, parsing(h.TargetLine, word, "unknown target")
		}
		if !runs(10*major+minor, target, strings.TrimPrefix(number, digits)) {
			return 0, &imageError{driver.ResultInvalidPTX, "ptxas fatal   : SM version specified by .target is higher than default SM version assumed"}
		}
	}
	return target, nil
}

// runs tells whether a device takes code for a target: sm_90, sm_90a (this device only)
// or sm_100f (this major version only).
func runs(have, target int, suffix string) bool {
	switch suffix {
	case "a":
		return have == target
	case "f":
		return have >= target && have/10 == target/10
	}
	return have >= target
}

// forget drops the body of a kernel that a Go function stands for. What it would need
// of the device remains.
func forget(f *ptx.Function) {
	f.Body, f.Labels, f.Tables, f.Protos = nil, nil, nil, nil
	f.ReqNCluster = [3]uint32{}
}

// checkGlobals finds variables that cannot be placed when a context loads the image.
func (img *image) checkGlobals() *imageError {
	addrs := make([]uint64, len(img.globals))
	for i, g := range img.globals {
		if g.External {
			return unresolved(g.Name)
		}
		if _, err := img.program.Initial(i, addrs); err != nil {
			return aborted(err.Error())
		}
	}
	return nil
}

func (img *image) newEntry(f *ptx.Function, inGo bool) (*entry, *imageError) {
	e := &entry{name: f.Name, paramBytes: f.ParamBytes, bound: maxThreadsPerBlock, registers: boundRegisters}
	if e.paramBytes > maxParams {
		return nil, fatal(driver.ResultInvalidPTX, f.Line, "Formal parameter space overflowed in function %s", e.name)
	}
	for _, p := range f.Params {
		e.params = append(e.params, param{p.Offset, p.Size})
	}
	if f.SharedBytes > maxStaticShared {
		return nil, tooMuch(e.name, "shared", f.SharedBytes, maxStaticShared)
	}
	e.staticBytes = int(f.SharedBytes)
	code := img.program.Entry(f.Name)
	if code.LocalBytes() > maxLocal {
		return nil, tooMuch(e.name, "local", uint64(code.LocalBytes()), maxLocal)
	}
	e.localBytes = code.LocalBytes()
	for _, g := range img.globals {
		if g.Const {
			e.constBytes += int(min(g.Size, math.MaxInt32))
		}
	}
	e.constBytes = min(e.constBytes, math.MaxInt32)
	if f.ReqNTID != [3]uint32{} {
		e.reqBlock = [3]int{int(f.ReqNTID[0]), int(f.ReqNTID[1]), int(f.ReqNTID[2])}
	}
	for _, d := range [][3]uint32{f.MaxNTID, f.ReqNTID} {
		if d == [3]uint32{} {
			continue
		}
		threads := product(d)
		if threads == 0 {
			return nil, parsing(f.Line, f.Name, "a dimension of the block is 0")
		}
		e.bound = int(min(threads, uint64(e.bound)))
	}
	if !inGo {
		e.registers = registersOf(code.Registers(), int(f.MaxNReg), e.bound, f.MaxNTID != [3]uint32{} || f.ReqNTID != [3]uint32{})
	}
	e.maxThreads = min(e.bound, threadsWith(e.registers))
	return e, nil
}

// product multiplies dimensions, without an overflow.
func product(d [3]uint32) uint64 {
	n := uint64(1)
	for _, x := range d {
		n = min(n*uint64(x), math.MaxUint32)
	}
	return n
}
