package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// typeName finds the types of package driver in a piece of Go.
var typeName = regexp.MustCompile(`(^|[^\w.])([A-Z]\w*)`)

// qualified writes a type as other packages name it.
func qualified(typ string) string { return typeName.ReplaceAllString(typ, "${1}driver.$2") }

// writeBridge makes the functions of C that the bridge of the tests registers. Those whose
// method is written by hand are written by hand there as well.
func writeBridge(b *bytes.Buffer, groups []*group) {
	p(b, "//go:build linux && (amd64 || arm64)\n\npackage conformance\n")
	p(b, "import (\n\"unsafe\"\n\n\"github.com/purecuda/purecuda/driver\"\n)\n")
	p(b, "// functions are the functions of the driver API, each with the versions that have\n// its signature.\nvar functions = []function{")
	for _, g := range groups {
		for _, e := range g.entries {
			var vs []string
			for _, v := range e.variants {
				vs = append(vs, fmt.Sprintf("{%d, %q}", v.version, e.name+v.suffix))
			}
			fmt.Fprintf(b, "{%q, []variant{%s}, ", e.name, strings.Join(vs, ", "))
			if e.api != "" || e.by || e.inner() {
				fmt.Fprint(b, "c"+e.name[2:])
			} else {
				writeForward(b, e)
			}
			p(b, "},")
		}
	}
	p(b, "}")
}

// writeForward makes the function of C that calls a method.
func writeForward(b *bytes.Buffer, e *entry) {
	var params, in, out []string
	for _, a := range e.args {
		typ := qualified(a.typ)
		switch {
		case a.out:
			params, out = append(params, a.name+" *"+typ), append(out, "*"+a.name)
		case a.ref:
			params, in = append(params, a.name+" *"+typ), append(in, "*"+a.name)
		case a.null:
			params = append(params, "_ uintptr")
		case a.word:
			params, in = append(params, a.name+" uint64"), append(in, "*(*"+typ+")(unsafe.Pointer(&"+a.name+"))")
		case a.count != "":
			params = append(params, a.name+" *"+typ, a.name+"Count "+a.count)
			in = append(in, "unsafe.Slice("+a.name+", "+a.name+"Count)")
		case a.typ == "string":
			params, in = append(params, a.name+" *byte"), append(in, "text("+a.name+")")
		default:
			params, in = append(params, a.name+" "+typ), append(in, a.name)
		}
	}
	call := fmt.Sprintf("target().%s(%s)", e.method, strings.Join(in, ", "))
	if len(out) == 0 {
		fmt.Fprintf(b, "func(%s) driver.Result { return %s }", strings.Join(params, ", "), call)
		return
	}
	fmt.Fprintf(b, "func(%s) (r driver.Result) {\n%s, r = %s\nreturn r\n}", strings.Join(params, ", "), strings.Join(out, ", "), call)
}

// writeProxy makes an implementation of the API whose every call passes one place, for
// the tests of the bridge.
func writeProxy(b *bytes.Buffer, groups []*group) {
	p(b, "//go:build linux && (amd64 || arm64)\n\npackage conformance\n")
	p(b, "import (\n\"unsafe\"\n\n\"github.com/purecuda/purecuda/driver\"\n)\n")
	for _, g := range groups {
		for _, e := range g.entries {
			if e.inner() {
				continue
			}
			signature := strings.Replace(e.signature(), ") Result", ") (r Result)", 1)
			name, rest, _ := strings.Cut(signature, "(")
			params, results, _ := strings.Cut(rest, ") (")
			if strings.Contains(params, "func(") { // its parenthesis is not the end
				params, results = "stream Stream, f func()", "r Result)"
			}
			in, out := names(params), names(strings.TrimSuffix(results, ")"))
			p(b, "func (p *proxy) %s(%s) (%s {", name, qualified(params), qualified(results))
			p(b, "if !p.pass(%q, []any{%s}, []any{&%s}) {", name, strings.Join(in, ", "), strings.Join(out, ", &"))
			p(b, "%s = p.API.%s(%s)\n}\nreturn\n}\n", strings.Join(out, ", "), name, strings.Join(in, ", "))
		}
	}
}

// names of parameters.
func names(params string) []string {
	var all []string
	for _, one := range strings.Split(params, ", ") {
		if name, _, ok := strings.Cut(one, " "); ok {
			all = append(all, name)
		}
	}
	return all
}
