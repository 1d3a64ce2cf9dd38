package main

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// imports makes the import declaration, of those packages that a text uses.
func imports(b *bytes.Buffer, write func(*bytes.Buffer), paths ...string) {
	var body bytes.Buffer
	write(&body)
	p(b, "\nimport (")
	for i, at := range paths {
		if i > 0 && !strings.Contains(paths[i-1], ".") && strings.Contains(at, ".") {
			p(b, "")
		}
		if used, _ := regexp.Match(`\b`+path.Base(at)+`\.[A-Z]`, body.Bytes()); used {
			p(b, "%q", at)
		}
	}
	p(b, ")\n")
	b.Write(body.Bytes())
}

const root = "github.com/purecuda/purecuda/"

func (l *bindings) writeAPI(b *bytes.Buffer) {
	imports(b, func(b *bytes.Buffer) {
		p(b, "// API is %s as this package calls it: [*Library] is the real one, and package %s has one that is", l.one["name"], l.one["simulated"])
		p(b, "// simulated. A function that this %s lacks returns [StatusSymbolMissing].", l.one["name"])
		for i, line := range l.lists["api"] {
			if i == 0 {
				p(b, "//")
			}
			p(b, "// %s", line)
		}
		p(b, "type API interface {")
		p(b, "// Version returns the version of %s: major, minor, patch; 0 where it is not known.", l.one["name"])
		p(b, "Version() [3]int")
		for _, g := range l.group {
			for _, e := range g.entries {
				if e.api == "" && (e.method == "" || !exported(e.method)) {
					continue
				}
				for _, line := range e.doc {
					p(b, "// %s", line)
				}
				p(b, "%s", strings.ReplaceAll(strings.ReplaceAll(e.signature(), "r Result)", "s Status)"), ") Result", ") Status"))
			}
		}
		p(b, "}\n")
		writeTypes(b, slices.DeleteFunc(slices.Clone(l.enums), func(e *enum) bool { return e == l.status() }))
	}, "unsafe", root+"driver")
}

func (l *bindings) writeCalls(b *bytes.Buffer) {
	d := dialect{"Status", "StatusInvalidValue", l.index, l.bounds}
	imports(b, func(b *bytes.Buffer) {
		p(b, "var _ API = (*Library)(nil)\n")
		p(b, `// call makes one call. It lets frame, and what it points to, stay on the stack.
func (l *Library) call(f function, frame *ffi.Frame, words int) Status {
	if l == nil || l.fn[f] == 0 {
		return StatusSymbolMissing
	}
	fn := l.fn[f]%s
	return status.Returned[Status](frame.Call(fn, words))
}
`, l.within("0"))
		var calls bytes.Buffer
		for _, e := range l.functions() {
			if e.method != "" {
				writeCall(&calls, e, d)
			}
		}
		if bytes.Contains(calls.Bytes(), []byte("l.callFloats(")) {
			p(b, `// callFloats is call of a function that takes float or double: the words of the bits that are set are those.
func (l *Library) callFloats(f function, frame *ffi.Frame, words int, floats uint32) Status {
	if l == nil || l.fn[f] == 0 {
		return StatusSymbolMissing
	}
	fn := l.fn[f]%s
	return status.Returned[Status](frame.CallFloats(fn, words, floats))
}
`, l.within("floats"))
		}
		if l.within("") != "" {
			p(b, `// in is the library for calls with a handle: each makes the context current in its own crossing, where that can be.
func in(api API, h *runtime.LibraryHandle) API {
	if l, ok := api.(*Library); ok && l != nil {
		within := *l
		if within.current = h.Current(); within.current != nil {
			return &within
		}
	}
	return api
}
`)
		}
		b.Write(calls.Bytes())
	}, "math", "unsafe", root+"driver", root+"internal/ffi", root+"internal/status", root+"libs/cublas", root+"runtime")
}

// within is the part of a call that makes it with a context current, if the library has such calls.
func (l *bindings) within(floats string) string {
	if _, ok := l.one["within"]; !ok {
		return ""
	}
	return `
	if l.current != nil {
		return status.Returned[Status](l.current.Call(frame, fn, words, ` + floats + `))
	}`
}

// writeIndices makes the constants of the functions.
func (l *bindings) writeIndices(b *bytes.Buffer) {
	p(b, "// function is an index into functions and Library.fn.\ntype function int\n\nconst (")
	for i, e := range l.functions() {
		if i == 0 {
			p(b, "%s function = iota", l.index(e))
		} else {
			p(b, "%s", l.index(e))
		}
	}
	p(b, "\nfunctionCount\n)\n")
}

// writeTable makes the functions of a library whose loader is written by hand, and what a loader does with them.
func (l *bindings) writeTable(b *bytes.Buffer) {
	imports(b, func(b *bytes.Buffer) {
		l.writeIndices(b)
		p(b, `// functions are those of %[1]s that this package calls, newest name first: the names of one line have one
// signature. since is the version that brought it. Those that are required say that the library is %[1]s.
var functions = [functionCount]struct {
	names    []string
	since    string
	required bool
}{`, l.one["name"])
		for _, e := range l.functions() {
			names := fmt.Sprintf("%q", append([]string{e.name}, e.others...))
			required := ""
			if e.required {
				required = ", required: true"
			}
			p(b, "%s: {names: []string{%s}, since: %q%s},", l.index(e), strings.ReplaceAll(names[1:len(names)-1], `" "`, `", "`), cmp.Or(e.brought, l.one["oldest"]), required)
		}
		p(b, `}

func init() {
	for _, f := range functions {
		if f.required {
			description.Functions = append(description.Functions, f.names[0])
		}
	}
}

// resolve finds the functions.
func (l *Library) resolve() {
	for i, f := range functions {
		for _, name := range f.names {
			if l.fn[i] = l.lib.Symbol(name); l.fn[i] != 0 {
				break
			}
		}
	}
}

// Path is the candidate that was opened.
func (l *Library) Path() string { return zero.Or(l).lib.Path() }

// Attempts are the candidates that were tried before, and why they were not used.
func (l *Library) Attempts() []driver.Attempt { return zero.Or(l).lib.Attempts() }

// Missing names the functions that this %[1]s does not have, each with the version that brings it: "%[2]s (%[3]s)".
func (l *Library) Missing() []string {
	var names []string
	for i, fn := range zero.Or(l).fn {
		if fn == 0 {
			names = append(names, functions[i].names[0]+" ("+functions[i].since+")")
		}
	}
	return names
}`, l.one["name"], l.functions()[0].name, l.one["oldest"])
	}, root+"driver", root+"internal/zero")
}

func (l *bindings) writeLibrary(b *bytes.Buffer) {
	name, variable := l.one["name"], l.one["library"]
	oldest, brings, _ := strings.Cut(l.one["oldest"], " ")
	imports(b, func(b *bytes.Buffer) {
		p(b, "// PathVariable names the environment variable that replaces the candidates of [Open] by one file.")
		p(b, "const PathVariable = \"PURECUDA_%s_PATH\"\n", variable)
		p(b, "// oldest is the version that brings all functions.\nvar oldest = library.Since{%s}\n", strings.Replace(oldest, ".", ", ", 1))
		l.writeIndices(b)
		p(b, "var functions = [functionCount]string{")
		for _, e := range l.functions() {
			p(b, "%s: %q,", l.index(e), e.name)
		}
		p(b, "}\n")
		p(b, "// Library is the %s of this machine. It implements [API] and is safe for concurrent use. It is never unloaded.", name)
		for _, line := range l.lists["is"] {
			p(b, "// %s", line)
		}
		current := ""
		if l.within("") != "" {
			current = "\ncurrent *current.Context // of a handle: see in"
		}
		p(b, "type Library struct {\nlib *library.Library\nfn [functionCount]uintptr%s\n}\n", current)
		p(b, `// Open loads %s. With no argument it looks in the places where it is installed (see [library.Description.Candidates]);
// otherwise it tries the given files, in order. It blocks while files are read.`, name)
		for _, line := range l.lists["open"] {
			p(b, "// %s", line)
		}
		if brings != "" {
			brings = fmt.Sprintf(", %q", brings)
		}
		required := "functions[:]"
		if i := slices.IndexFunc(l.functions(), func(e *entry) bool { return e.brought != "" }); i >= 0 {
			required = "functions[:" + l.index(l.functions()[i]) + "]"
		}
		fields := "d.Functions, d.Oldest = " + required + ", oldest"
		if brings != "" {
			fields = "d.Functions, d.Oldest, d.Brings = " + required + ", oldest" + brings
		}
		p(b, `//
// The error is of kind [driver.ErrLibraryUnavailable] if no candidate is there or the platform has none, with
// every place and what to install. It is of kind [driver.ErrDriverLibraryLoadFailed] if one is there and none
// can be used, because it is too old, for example.
func Open(candidates ...string) (*Library, error) {
	d := library.%s
	%s
	lib, err := d.Open(candidates...)
	if err != nil {
		return nil, err
	}
	l := &Library{lib: lib}
	for i, name := range functions {
		l.fn[i] = lib.Symbol(name)
	}
	return l, nil
}

// Path is the candidate that was opened.
func (l *Library) Path() string { return zero.Or(l).lib.Path() }

// Attempts are the candidates that were tried before, and why they were not used.
func (l *Library) Attempts() []driver.Attempt { return zero.Or(l).lib.Attempts() }

// Version implements [API].
func (l *Library) Version() [3]int { return zero.Or(l).lib.Version() }`, variable, fields)
	}, root+"driver", root+"driver/library", root+"internal/current", root+"internal/zero")
}

// kinds are the statuses by the kinds of their errors, in the order in which they come, and the texts without the kinds.
func kinds(e *enum) (all []string, of map[string][]string) {
	of = map[string][]string{}
	for i, v := range e.values {
		if kind, text, ok := strings.Cut(v.text, ": "); ok && strings.HasPrefix(kind, "Err") {
			if of[kind] == nil {
				all = append(all, kind)
			}
			of[kind], e.values[i].text = append(of[kind], v.name), text
		}
	}
	return all, of
}

// status is the type of what the functions return.
func (l *bindings) status() *enum {
	return l.enums[slices.IndexFunc(l.enums, func(e *enum) bool { return e.typ == "Status" || e.typ == "Result" })]
}

// prefixOf is what all names of failures have in common.
func prefixOf(e *enum) string {
	prefix := e.values[1].c
	for _, v := range e.values[1:] {
		for !strings.HasPrefix(v.c, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}

func (l *bindings) writeStatus(b *bytes.Buffer) {
	name, e := l.one["name"], l.status()
	all, of := kinds(e)
	imports(b, func(b *bytes.Buffer) {
		writeTypes(b, []*enum{e})
		p(b, `// These are no codes of %[1]s.
const (
	// %[4]sSymbolMissing is returned by methods of [API] whose function this %[1]s does not have.
	%[4]sSymbolMissing %[4]s = status.SymbolMissing
	// %[4]sImpossibleValue is returned where %[1]s reported success with a value that cannot be true.
	%[4]sImpossibleValue %[4]s = status.ImpossibleValue
)

// names are those in the header, with what they mean.
var names = status.Of(%[1]q, %[2]q, %[3]q, map[%[4]s][2]string{`, name, prefixOf(e), l.one["simulated"], e.typ)
		for _, v := range e.values {
			p(b, "%s: {%q, %q},", v.name, v.c, v.text)
		}
		p(b, `})

// Name returns the name in the header. It needs no library.
func (r %[1]s) Name() string { return names.Name(r) }

func (r %[1]s) String() string { return names.String(r) }

// Error makes a %[1]s a target for errors.Is: errors.Is(err, %[2]s.%[3]s). Do not return a bare one
// as an error: %[4]s would be one as well.
func (r %[1]s) Error() string { return names.Error(r) }
`, e.typ, path.Base(l.path), e.values[len(e.values)-1].name, e.values[0].name)
		if l.one["library"] == "" {
			return
		}
		p(b, `// wrong is the error of an argument.
func wrong(format string, args ...any) error {
	return driver.Errorf(driver.ErrInvalidArgument, format, args...)
}
`)
		if len(all) == 0 {
			return
		}
		refused := ""
		if l.within("") != "" {
			refused = `
	if l, ok := api.(*Library); ok && l != nil {
		if err := l.current.Failed(); err != nil {
			return err
		}
	}`
		}
		p(b, `// failed is the error of a function that did not return StatusSuccess, or nil.
func failed(api API, function string, s Status) error {
	if s == StatusSuccess {
		return nil
	}%s
	e := driver.Errorf(driver.ErrDriverCallFailed, "%%w", s)
	e.Op = function
	switch s {`, refused)
		for _, kind := range all {
			p(b, "case %s:\ne.Kind = driver.%s", strings.Join(of[kind], ", "), kind)
		}
		p(b, `case StatusSymbolMissing:
		e.Kind = driver.ErrSymbolMissing
		e.Detail = library.%s.TooOld(function, oldest, library.Version(api.Version()))
	}
	return e
}`, l.one["library"])
	}, root+"driver", root+"driver/library", root+"internal/status")
}

// writeProof makes what fails to compile where NVIDIA's headers disagree with the list.
func (l *bindings) writeProof(b *bytes.Buffer) {
	p(b, "/* What this package takes from NVIDIA's headers, compared with them: cc -fsyntax-only -I/usr/local/cuda/include abi_check.c */")
	for _, h := range l.lists["header"] {
		p(b, "#include <%s>", h)
	}
	p(b, "#include <stddef.h>\n\n#define SAME(name, value) _Static_assert((name) == (value), #name)")
	result := "int"
	for _, e := range l.enums {
		p(b, "")
		if e == l.status() {
			result = e.c
		}
		if e.c != "-" && len(e.values) > 0 {
			p(b, "SAME(sizeof(%s), 4);", e.c)
		}
		for _, v := range e.values {
			l.since(b, v.since, func() {
				if v.c != "-" {
					p(b, "SAME(%s, %d);", v.c, v.number)
				}
			})
		}
	}
	p(b, "")
	for _, line := range l.lists["proof"] {
		p(b, "%s", line)
	}
	p(b, "\n/* The prototypes: a pointer to each function. */")
	for _, e := range l.functions() {
		l.since(b, e.header, func() { p(b, "%s (*check_%s)(%s) = %s;", cmp.Or(e.returns, result), e.name, e.c, e.name) })
	}
}

// since makes lines for headers of a version and newer.
func (l *bindings) since(b *bytes.Buffer, version string, lines func()) {
	if version == "" {
		lines()
		return
	}
	p(b, "#if %s >= %s", l.one["version"], version)
	lines()
	p(b, "#endif")
}

// writeSimulated makes what all simulated libraries have.
func (l *bindings) writeSimulated(b *bytes.Buffer) {
	pkg := path.Base(l.path)
	imports(b, func(b *bytes.Buffer) {
		p(b, `var _ %[1]s.API = (*Library)(nil)

// Fail makes a method or a function return a status from now on. StatusSuccess ends that.
func (l *Library) Fail(method string, s %[1]s.Status) { l.table.Fail(method, s) }

// SetVersion makes it another version.
func (l *Library) SetVersion(v [3]int) { l.table.SetVersion(v) }

// Version implements [%[1]s.API].
func (l *Library) Version() [3]int { return l.table.Version() }`, pkg)
	}, root+"libs/"+pkg)
}
