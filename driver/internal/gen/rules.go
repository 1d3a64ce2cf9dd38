package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// implied are the rules that a rule brings with it.
var implied = map[string]string{"early": "harmless", "work": "hot"}

// writeRules makes the rules of the simulated driver.
func writeRules(b *bytes.Buffer, groups []*group) {
	p(b, "package drivertest\n\nimport \"github.com/purecuda/purecuda/driver\"\n")
	p(b, "// rules are those that entries.txt tells, by the name of the function.\nvar rules = map[string]rule{")
	for _, g := range groups {
		for _, e := range g.entries {
			var all []string
			for _, name := range e.rules {
				if name == "cold" {
					continue
				}
				all = append(all, name+": true")
				if more := implied[name]; more != "" {
					all = append(all, more+": true")
				}
			}
			if e.refused != "" {
				all = append(all, fmt.Sprintf("refused: %q", e.refused))
			}
			if len(e.fails) > 0 {
				all = append(all, "fails: []driver.Result{driver."+strings.Join(e.fails, ", driver.")+"}")
			}
			p(b, "%q: {%s},", e.name, strings.Join(all, ", "))
		}
	}
	p(b, "}")
}

// writeRefused makes the methods of the simulated driver for what it does not have.
func writeRefused(b *bytes.Buffer, groups []*group) {
	p(b, "package drivertest\n\nimport \"github.com/purecuda/purecuda/driver\"\n")
	for _, g := range groups {
		for _, e := range g.entries {
			if e.refused == "" {
				continue
			}
			signature := strings.Replace(e.signature(), ") Result", ") (r Result)", 1)
			name, types, _ := strings.Cut(signature, "(")
			p(b, "// %s implements [driver.API]. It is not supported: %s.", name, e.refused)
			p(b, "func (d *simulated) %s(%s {\nr = d.refuses(%q)\nreturn\n}\n", name, qualified(types), e.name)
		}
	}
}

// writeBinding makes the methods of Binding for work that names memory.
func writeBinding(b *bytes.Buffer, groups []*group) {
	p(b, "package driver\n\nimport \"unsafe\"\n")
	for _, g := range groups {
		for _, e := range g.entries {
			signature := e.signature()
			if !slices.Contains(e.rules, "work") || !strings.Contains(signature, "DevicePtr") && !strings.Contains(signature, "Memcpy") {
				continue
			}
			name, rest, _ := strings.Cut(signature, "(")
			params, _, _ := strings.Cut(rest, ")")
			p(b, "// %s implements [API].", name)
			p(b, "func (b *Binding) %s {", signature)
			p(b, "return b.anyThread(func() Result { return b.API.%s(%s) })\n}\n", name, strings.Join(names(params), ", "))
		}
	}
}

// writeStructs makes the part of the proof that follows from structs.go.
func writeStructs(b *bytes.Buffer, all []structure) {
	p(b, "/* Each line fails to compile where cuda.h disagrees with structs.go. */")
	for _, s := range all {
		p(b, "")
		since(b, s.since, func() {
			p(b, "SIZE(%s, %d);", s.c, s.size)
			for _, f := range s.fields {
				since(b, f.since, func() { p(b, "OFFSET(%s, %s, %d);", s.c, f.c, f.offset) })
			}
		})
	}
}
