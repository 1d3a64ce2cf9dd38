package nvrtc

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/driver"
)

// Program is CUDA C++ to compile. Only Source has to be set.
type Program struct {
	// Source is the text.
	Source string
	// Name is what messages, debug information and __FILE__ call the source. It need
	// not be a file. The default is "program.cu".
	Name string
	// Headers are headers in memory: their names, as they stand in #include
	// directives, and their texts. They come before files of the same name.
	Headers map[string]string
	// NameExpressions are kernels, functions and variables whose names in the compiled
	// code are wanted: "scale<float>", "&table". That instantiates templates. Names
	// that are declared extern "C" need none.
	NameExpressions []string

	Options
}

// Options say how a program is compiled. The zero value is what nvcc does by default, the
// contraction of a*b+c into one rounding included.
type Options struct {
	// IncludePaths are directories that headers are read from, in order. Without any, no file is
	// read. With some, a name in quotes is looked for beside the text that includes it first, as in
	// every C compiler. For the source that is the directory of its Name, or the current directory
	// if Name has none.
	IncludePaths []string
	// Defines are macros and their values. An empty value defines the macro as 1.
	Defines map[string]string
	// Std is the C++ standard. The default is "c++17", which every version of NVRTC here
	// knows; it is always given, as NVRTC's own default depends on its version.
	Std string
	// FastMath trades accuracy for speed: approximate division and square root,
	// denormal float32 flushed to zero, approximate sinf and the like.
	FastMath bool
	// NoFMA keeps a*b+c at two roundings, as Go on amd64 and C compilers without
	// contraction have it, for results that are equal to the CPU's bit for bit. It
	// cannot go with FastMath.
	NoFMA bool
	// MaxRegisters limits the registers of a thread; 0 is no limit. It works on machine
	// code. Where PTX is compiled, the driver's own option does (driver.JIT).
	MaxRegisters int
	// Extra are further options in NVRTC's words, last, such as "--generate-line-info", "--device-debug" and
	// "--relocatable-device-code=true":
	// https://docs.nvidia.com/cuda/nvrtc/index.html#supported-compile-options. While
	// it compiles, NVRTC raises the stack limit of the whole process, unless
	// "--modify-stack-limit=false" stands here.
	Extra []string
}

// sourceIncludeSince is the oldest NVRTC of which it is known that it accepts
// --no-source-include.
const sourceIncludeSince driver.Version = 11080

// list returns the options in NVRTC's words. It is the same for options that mean the same.
func (o Options) list(version driver.Version) []string {
	var list []string
	flag := func(on bool, option string) {
		if on {
			list = append(list, option)
		}
	}
	// Or a header that happens to lie in the current directory would be taken. The option
	// also ends the search beside headers, on which headers in directories rely.
	flag(len(o.IncludePaths) == 0 && version >= sourceIncludeSince, "--no-source-include")
	list = append(list, "--std="+cmp.Or(o.Std, "c++17"))
	flag(o.FastMath, "--use_fast_math")
	flag(o.NoFMA, "--fmad=false")
	flag(o.MaxRegisters > 0, "--maxrregcount="+strconv.Itoa(o.MaxRegisters))
	for _, name := range slices.Sorted(maps.Keys(o.Defines)) {
		define := "--define-macro=" + name
		if value := o.Defines[name]; value != "" {
			define += "=" + value
		}
		list = append(list, define)
	}
	for _, dir := range o.IncludePaths {
		list = append(list, "--include-path="+dir)
	}
	return append(list, o.Extra...)
}

// check finds what NVRTC would misunderstand.
func (p Program) check() error {
	invalid := func(format string, args ...any) error {
		return driver.Errorf(driver.ErrInvalidArgument, format, args...)
	}
	if strings.TrimSpace(p.Source) == "" {
		return invalid("a program without source")
	}
	if p.FastMath && p.NoFMA {
		return invalid("FastMath implies contraction: it cannot go with NoFMA")
	}
	if p.MaxRegisters < 0 {
		return invalid("%d registers", p.MaxRegisters)
	}
	texts := []string{p.Source, p.Name}
	texts = append(texts, p.NameExpressions...)
	for _, h := range p.headers() {
		texts = append(texts, h.Name, h.Text)
	}
	texts = append(texts, p.list(0)...)
	for _, text := range texts {
		if strings.IndexByte(text, 0) >= 0 {
			return invalid("a NUL in the text %q", text[:min(len(text), 60)])
		}
	}
	return nil
}

// name is Name or its default.
func (p Program) name() string { return cmp.Or(p.Name, "program.cu") }

// headers are the headers in the order of their names.
func (p Program) headers() []Header {
	list := make([]Header, 0, len(p.Headers))
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		list = append(list, Header{Name: name, Text: p.Headers[name]})
	}
	return list
}

// nameExpressions are the name expressions in order, each once.
func (p Program) nameExpressions() []string {
	return slices.Compact(slices.Sorted(slices.Values(p.NameExpressions)))
}
