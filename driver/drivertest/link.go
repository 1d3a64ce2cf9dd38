package drivertest

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ptx"
	"github.com/purecuda/purecuda/internal/ptx/exec"
)

// Link implements [driver.API]. It takes PTX only, and its image is PTX.
func (d *simulated) Link(parts []driver.LinkPart, _ driver.JIT) ([]byte, driver.JITLog, driver.Result) {
	c, r := d.enter("cuLinkCreate")
	if r != driver.Success {
		return nil, driver.JITLog{}, r
	}
	major, minor := c.ctx.dev.config.Major, c.ctx.dev.config.Minor
	d.mu.Unlock()
	image, log, r := d.link(parts, major, minor)
	if _, ended := d.enter("cuLinkDestroy"); ended == driver.Success {
		d.mu.Unlock()
	} else if r == driver.Success {
		image, r = nil, ended
	}
	return image, log, r
}

// link is Link between cuLinkCreate and cuLinkDestroy.
func (d *simulated) link(parts []driver.LinkPart, major, minor int) ([]byte, driver.JITLog, driver.Result) {
	var l linker
	for _, part := range parts {
		if _, r := d.enter("cuLinkAddData"); r != driver.Success {
			return nil, driver.JITLog{}, r
		}
		bad := l.add(part, d.config.Version, major, minor)
		d.mu.Unlock()
		if bad != nil {
			return nil, driver.JITLog{Error: bad.log}, bad.result
		}
	}
	c, r := d.enter("cuLinkComplete")
	if r != driver.Success {
		return nil, driver.JITLog{}, r
	}
	defer d.mu.Unlock()
	image, bad := l.image()
	if bad != nil {
		return nil, driver.JITLog{Error: bad.log}, bad.result
	}
	_, log, r := c.read(image, major, minor)
	if r != driver.Success {
		return nil, log, r
	}
	return image, log, driver.Success
}

// linker makes one PTX module of several.
type linker struct {
	parts   []linked
	version ptx.Version
	target  string
}

// linked is a part of it.
type linked struct {
	name   string
	body   string // without the header
	module *ptx.Module
}

// header are the directives that a module begins with.
var header = regexp.MustCompile(`(?m)^[ \t]*\.(version|target|address_size)\b[^\n]*`)

func (l *linker) add(part driver.LinkPart, version driver.Version, major, minor int) *imageError {
	if part.Kind != driver.LinkPTX {
		return &imageError{driver.ResultNoBinaryForGPU, fmt.Sprintf("error   : %s is no PTX, and the simulated driver links PTX only", part.Name)}
	}
	text, _, _ := bytes.Cut(part.Data, []byte{0})
	target, bad := checkHeader(text, version, major, minor)
	if bad != nil {
		return bad
	}
	m, err := ptx.Parse(text)
	if err != nil {
		return compilerError(err)
	}
	if m.Version.AtLeast(l.version.Major, l.version.Minor) {
		l.version = m.Version
	}
	l.target = max(l.target, fmt.Sprintf("%03d", target))
	l.parts = append(l.parts, linked{part.Name, header.ReplaceAllString(string(text), ""), m})
	return nil
}

// symbol is a function or a variable of a module.
type symbol struct {
	name     string
	linkage  ptx.Linkage
	declared bool // and not defined
}

func (p linked) symbols() (all []symbol) {
	for _, f := range slices.Concat(p.module.Entries, p.module.Functions) {
		linkage := f.Linkage
		if f.IsEntry && linkage == ptx.Internal {
			linkage = ptx.Visible
		}
		all = append(all, symbol{f.Name, linkage, f.Declared})
	}
	for _, v := range p.module.Variables {
		if !v.Dynamic() {
			all = append(all, symbol{v.Name, v.Linkage, v.Linkage == ptx.Extern})
		}
	}
	return all
}

// image joins the parts. Symbols that a part keeps to itself get names of their own, and so do second weak ones.
func (l *linker) image() ([]byte, *imageError) {
	if len(l.parts) == 0 {
		return nil, &imageError{driver.ResultInvalidImage, "nvlink fatal   : there is nothing to link"}
	}
	definer := map[string]string{}
	var b strings.Builder
	fmt.Fprintf(&b, ".version %d.%d\n.target sm_%s\n.address_size 64\n", l.version.Major, l.version.Minor, strings.TrimLeft(l.target, "0"))
	for i, part := range l.parts {
		body := part.body
		for _, s := range part.symbols() {
			switch {
			case s.declared:
			case s.linkage == ptx.Internal, s.linkage == ptx.Weak && definer[s.name] != "":
				word := regexp.MustCompile(`([^\w$%.]|^)` + regexp.QuoteMeta(s.name) + `\b`)
				body = word.ReplaceAllString(body, fmt.Sprintf("${1}%s__%d", strings.ReplaceAll(s.name, "$", "$$"), i))
			case s.linkage == ptx.Visible && definer[s.name] != "":
				return nil, &imageError{driver.ResultInvalidImage,
					fmt.Sprintf("nvlink error   : Multiple definition of '%s' in '%s', first defined in '%s'", s.name, part.name, definer[s.name])}
			default:
				definer[s.name] = part.name
			}
		}
		b.WriteString(body + "\n")
	}
	for _, part := range l.parts {
		for _, s := range part.symbols() {
			if s.declared && s.linkage == ptx.Extern && definer[s.name] == "" && !exec.Provides(s.name) {
				return nil, &imageError{driver.ResultInvalidImage, fmt.Sprintf("nvlink error   : Undefined reference to '%s' in '%s'", s.name, part.name)}
			}
		}
	}
	return []byte(b.String()), nil
}
