package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// registerWords is ffi.RegisterWords.
const registerWords = 8

func p(b *bytes.Buffer, format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

func exported(name string) bool { return unicode.IsUpper(rune(name[0])) }

// inner tells that the call is a step of a method that the api line of another function names.
func (e *entry) inner() bool { return e.api == "" && !exported(e.method) }

// signature is the method as the API interface has it.
func (e *entry) signature() string {
	if e.api != "" {
		return e.api
	}
	var in, out []string
	for _, a := range e.args {
		switch {
		case a.out:
			out = append(out, a.name+" "+a.typ)
		case a.count != "":
			in = append(in, a.name+" []"+a.typ)
		case !a.null:
			in = append(in, a.name+" "+a.typ)
		}
	}
	if len(out) == 0 {
		return fmt.Sprintf("%s(%s) Result", e.method, strings.Join(in, ", "))
	}
	return fmt.Sprintf("%s(%s) (%s, r Result)", e.method, strings.Join(in, ", "), strings.Join(out, ", "))
}

func version(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// since is the version that brought the oldest variant we can use.
func (e *entry) since() int { return e.variants[len(e.variants)-1].version }

func writeAPI(b *bytes.Buffer, groups []*group) {
	p(b, "package driver\n\nimport \"unsafe\"\n")
	p(b, "// API is the CUDA driver: [*Library] calls the real one, and package drivertest")
	p(b, "// has one that is simulated in Go. Values go in, values come out, and the last")
	p(b, "// result is the driver's status. No method takes a pointer to store a result in: it")
	p(b, "// would have to live on the heap.")
	p(b, "//")
	p(b, "// The methods are the functions of the CUDA driver API without the prefix cu; the")
	p(b, "// link above each group leads to NVIDIA's page. A method that the driver lacks")
	p(b, "// returns [ResultSymbolMissing]. All methods are safe for concurrent use as far as")
	p(b, "// NVIDIA's functions are. Calls that change the current context change it for the")
	p(b, "// calling thread: the goroutine must be locked to it.")
	p(b, "//")
	p(b, "// \"Needs a context\" means that the call fails with ResultInvalidContext on a thread")
	p(b, "// without a current one. The interface grows with the driver: embed it in your own")
	p(b, "// implementations.")
	p(b, "type API interface {")
	for _, g := range groups {
		p(b, "\n// %s:\n// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__%s.html\n", g.title, g.page)
		for _, e := range g.entries {
			if e.inner() {
				continue
			}
			for _, line := range e.doc {
				p(b, "// %s", line)
			}
			var notes []string
			if e.needsContext {
				notes = append(notes, "Needs a context.")
			}
			if !e.required {
				notes = append(notes, "Since CUDA "+version(e.since())+".")
			}
			if len(notes) > 0 {
				p(b, "// %s", strings.Join(notes, " "))
			}
			p(b, "%s\n", e.signature())
		}
	}
	p(b, "}")
}

func writeEntries(b *bytes.Buffer, groups []*group) {
	p(b, "package driver\n")
	p(b, "// Indices of the entry points in Library.fn.\nconst (")
	first := true
	for _, g := range groups {
		for _, e := range g.entries {
			if first {
				p(b, "fn%s = iota", e.name[2:])
				first = false
			} else {
				p(b, "fn%s", e.name[2:])
			}
		}
	}
	p(b, "entryCount\n)\n")
	p(b, "// entries is the list in entries.txt.\nvar entries = [entryCount]Entry{")
	for _, g := range groups {
		for _, e := range g.entries {
			var vs []string
			for _, v := range e.variants {
				vs = append(vs, fmt.Sprintf("{%d, %q}", v.version, e.name+v.suffix))
			}
			fmt.Fprintf(b, "fn%s: {Name: %q, variants: []variant{%s}", e.name[2:], e.name, strings.Join(vs, ", "))
			if e.required {
				fmt.Fprint(b, ", Required: true")
			}
			if e.needsContext {
				fmt.Fprint(b, ", NeedsContext: true")
			}
			p(b, "},")
		}
	}
	p(b, "}")
}

func writeCalls(b *bytes.Buffer, groups []*group) {
	p(b, "package driver\n\nimport (\n\"math\"\n\"unsafe\"\n\n\"github.com/purecuda/purecuda/internal/ffi\"\n)\n")
	p(b, "var _ API = (*Library)(nil)\n")
	for _, g := range groups {
		for _, e := range g.entries {
			if !e.by {
				writeCall(b, e, ofDriver)
			}
		}
	}
}

// dialect is how the calls of package driver and of a library differ.
type dialect struct {
	result  string // the type of what functions return
	invalid string // the result for a string that C would read otherwise
	index   func(e *entry) string
	bounds  func(e *entry, a arg) string // what compares a result of a call with its bounds, or ""
}

var ofDriver = dialect{"Result", "ResultInvalidValue", func(e *entry) string { return "fn" + e.name[2:] }, (*entry).bounds}

func writeCall(b *bytes.Buffer, e *entry, d dialect) {
	if exported(e.method) {
		p(b, "// %s implements [API].", e.method)
	}
	var in, out, fields, names, values, strs []string
	floats := 0
	put := func(typ, val string) {
		field := fmt.Sprintf("a%d", len(fields))
		fields = append(fields, field+" "+typ)
		names = append(names, "c."+field)
		values = append(values, val)
	}
	for _, a := range e.args {
		typ, val := "uintptr", "uintptr("+a.name+")"
		switch {
		case a.null:
			put(typ, "0")
			continue
		case a.count != "":
			in = append(in, a.name+" []"+a.typ)
			put("*"+a.typ, "unsafe.SliceData("+a.name+")")
			put("uintptr", "uintptr(len("+a.name+"))")
			continue
		case a.out:
			out = append(out, a.name+" "+a.typ)
			typ, val = "*"+a.typ, "&"+a.name
		case a.ref:
			typ, val = "*"+a.typ, "&"+a.name
		case a.word:
			typ, val = a.typ, a.name
		case a.typ == "string":
			typ, val = "*byte", "c"+a.name
			strs = append(strs, a.name)
		case a.typ == "unsafe.Pointer" || strings.HasPrefix(a.typ, "*"):
			typ, val = a.typ, a.name
		case a.typ == "float32" || a.typ == "float64":
			floats |= 1 << len(fields)
			val = "ffi.F" + a.typ[1:] + "(" + a.name + ")"
		}
		if !a.out {
			in = append(in, a.name+" "+a.typ)
		}
		put(typ, val)
	}
	out = append(out, "r "+d.result)
	p(b, "func (l *Library) %s(%s) (%s) {", e.method, strings.Join(in, ", "), strings.Join(out, ", "))
	for _, s := range strs {
		p(b, "c%s, ok := ffi.CString(%s)\nif !ok {\nr = %s\nreturn\n}", s, s, d.invalid)
	}
	p(b, "var c struct {\nffi.Frame")
	for _, f := range fields {
		p(b, "%s", f)
	}
	if pad := registerWords - len(fields); pad > 0 {
		p(b, "_ [ffi.RegisterWords - %d]uintptr", len(fields))
	}
	p(b, "}")
	if len(names) > 0 {
		p(b, "%s = %s", strings.Join(names, ", "), strings.Join(values, ", "))
	}
	if floats == 0 {
		p(b, "r = l.call(%s, &c.Frame, %d)", d.index(e), len(fields))
	} else {
		p(b, "r = l.callFloats(%s, &c.Frame, %d, %#b)", d.index(e), len(fields), floats)
	}
	for _, a := range e.args {
		if check := d.bounds(e, a); a.out && check != "" {
			p(b, "r = %s", check)
		}
	}
	p(b, "return\n}\n")
}

// bounds of package driver.
func (e *entry) bounds(a arg) string {
	call := fmt.Sprintf("(l, fn%s, r, %q, ", e.name[2:], a.name)
	switch {
	case a.typ == "unsafe.Pointer":
		return "hostMemory" + call + "&" + a.name + ", bytes)"
	case a.low != "":
		return "within" + call + "&" + a.name + ", " + a.low + ", " + a.high + ")"
	case a.handle:
		return "notZero" + call + a.name + ")"
	}
	return ""
}

func writeConstants(b *bytes.Buffer, enums []*enum) {
	p(b, "package driver\n")
	for _, e := range enums {
		writeTypes(b, []*enum{e})
		if e.typ == "Result" {
			p(b, "// results names and explains every code.\nvar results = map[Result]struct{ name, text string }{")
			for _, v := range e.values {
				p(b, "%s: {%q, %q},", v.name, v.c, v.text)
			}
			p(b, "}\n")
		}
	}
}

// writeTypes makes types with their constants.
func writeTypes(b *bytes.Buffer, enums []*enum) {
	for _, e := range enums {
		for _, line := range e.doc {
			p(b, "// %s", line)
		}
		typ := e.base
		if e.typ != "-" {
			typ = e.typ
			p(b, "type %s %s\n", e.typ, e.base)
		}
		if len(e.values) == 0 {
			continue
		}
		if exported(e.typ) {
			p(b, "// Values of %s.", e.typ)
		}
		p(b, "const (")
		for _, v := range e.values {
			if e.typ == "Result" || e.typ == "Status" {
				p(b, "%s %s = %d // %s: %s", v.name, typ, v.number, v.c, v.text)
			} else if v.text != "" {
				p(b, "%s %s = %d // %s", v.name, typ, v.number, v.text)
			} else {
				p(b, "%s %s = %d", v.name, typ, v.number)
			}
		}
		p(b, ")\n")
	}
}

// oldestHeader is the cuda.h that all others are newer than: what it has is compared always.
const oldestHeader = 12000

// since makes lines for cuda.h of a version and newer; "" is any.
func since(b *bytes.Buffer, version string, lines func()) {
	if v, _ := strconv.Atoi(version); v <= oldestHeader {
		lines()
		return
	}
	p(b, "#if CUDA_VERSION >= %s", version)
	lines()
	p(b, "#endif")
}

// writeABI makes the part of the proof that follows from the two lists. The
// structures are checked by abi_check.c beside it, which a test keeps in step.
func writeABI(b *bytes.Buffer, groups []*group, enums []*enum) {
	p(b, "/* Each line fails to compile where cuda.h disagrees with this package. */")
	for _, g := range groups {
		p(b, "\n/* %s */", g.title)
		for _, e := range g.entries {
			for i, v := range e.variants {
				since(b, strconv.Itoa(v.version), func() {
					p(b, "SIGNATURE(PFN_%s_v%d, (%s));", e.name, v.version, e.c)
					if i == 0 {
						p(b, "NAME(%s, %s);", e.name, e.name+v.suffix)
					}
				})
			}
		}
	}
	for _, e := range enums {
		p(b, "")
		if e.c != "-" {
			since(b, e.since, func() { p(b, "SIZE(%s, 4);", e.c) })
		}
		for _, v := range e.values {
			since(b, v.since, func() { p(b, "VALUE(%s, %d);", v.c, v.number) })
		}
	}
}
