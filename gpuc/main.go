// Gpuc compiles kernels that are Go functions to PTX, and writes typed launches for them. In the package of the kernels:
//
//	//go:generate go tool gpuc
//
// It writes kernels_sm_75.ptx for each target, kernels_gpu.go, and kernels_gpu_test.go, which fails where a kernel is newer.
// docs/go-kernels.md has the language.
//
//	gpuc [flags] [folder of the package]
//
//	-arch sm_75,sm_90a  targets; a device takes the newest that is not newer than itself, and what is for 9.0 alone
//	-checks report      what happens at an index out of range: report, trap or off; a kernel's directive can say another
//	-o kernels_gpu.go   the Go file
//	-launch=false       no launches: for each kernel its PTX, in a file of its own, and its function on the CPU
//	-tags gpu           build tags, where the kernels are in files with a //go:build line
//	-check              write nothing, and fail if the files are not what the source gives; lines may have moved
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/generate"
	"github.com/purecuda/purecuda/internal/kernelsum"
)

func main() {
	debug.SetGCPercent(400) // it ends soon
	if err := run(os.Args[1:], os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "gpuc:", err)
		}
		os.Exit(1)
	}
}

// command is what the flags say.
type command struct {
	dir    string
	tags   string
	archs  []compile.Target
	checks compile.Checks
	out    string
	check  bool
	launch bool
}

// run is the command.
func run(args []string, usage io.Writer) error {
	c, err := parse(args, usage)
	if err != nil {
		return err
	}
	files, err := c.files()
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(c.dir, f.name)
		old, err := os.ReadFile(path)
		switch {
		case err == nil && bytes.Equal(old, f.text):
		case err == nil && strings.HasSuffix(f.name, "_test.go") && !bytes.HasPrefix(old, []byte(kernelsum.Generated)):
			return fmt.Errorf("%s is no file of gpuc, which would write it: give it another name", path)
		case c.check && err == nil && bytes.Equal(plain(old), plain(f.text)):
		case c.check:
			return fmt.Errorf("%s is not what the source gives: run gpuc", path)
		default:
			if err := os.WriteFile(path, f.text, 0o666); err != nil {
				return err
			}
		}
	}
	return nil
}

// places are the parts of a file that move with the lines of the source, as where something is added above a kernel.
var places = regexp.MustCompile(`(?m)^\t\.loc .*\n|^//line .*\n|(\.go:)\d+`)

// plain is a file without what need not be the same for -check: the ends of lines, and the numbers of lines.
func plain(text []byte) []byte {
	return places.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("$1"))
}

// parse parses the flags.
func parse(args []string, usage io.Writer) (*command, error) {
	flags := flag.NewFlagSet("gpuc", flag.ContinueOnError)
	flags.SetOutput(usage)
	archs := flags.String("arch", "sm_75", "targets, the oldest sm_75")
	checks := flags.String("checks", string(compile.ChecksReport), "at an index out of range: report, trap or off")
	out := flags.String("o", "kernels_gpu.go", "the Go `file`")
	launch := flags.Bool("launch", true, "launches of all kernels in one image; without, an image of each kernel")
	tags := flags.String("tags", "", "build tags, with commas, as of go build")
	check := flags.Bool("check", false, "write nothing, and fail if the files are not what the source gives")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	c := &command{dir: ".", tags: *tags, out: *out, check: *check, launch: *launch}
	if flags.NArg() > 1 {
		return nil, fmt.Errorf("%d folders are named; a package is one", flags.NArg())
	}
	if flags.NArg() == 1 {
		c.dir = flags.Arg(0)
	}
	if filepath.Base(c.out) != c.out || !strings.HasSuffix(c.out, ".go") {
		return nil, fmt.Errorf("-o %s: it is the name of a Go file in the package", c.out)
	}
	var err error
	if c.checks, err = compile.ParseChecks(*checks); err != nil {
		return nil, err
	}
	for _, name := range strings.Split(*archs, ",") {
		target, err := compile.ParseTarget(name)
		if err != nil {
			return nil, fmt.Errorf("-arch %s: %w", *archs, err)
		}
		c.archs = append(c.archs, target)
	}
	return c, nil
}

// file is a file to write.
type file struct {
	name string
	text []byte
}

// files makes all files.
func (c *command) files() ([]file, error) {
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder: name the folder of the package, not a file or a pattern", c.dir)
	}
	p, err := compile.Load(compile.Config{Dir: dir, Pattern: ".", Tags: c.tags, Generated: filepath.Join(dir, c.out), Stub: stub, Imports: generate.Imports()})
	if err != nil {
		return nil, err
	}
	if len(p.Kernels) == 0 {
		return nil, fmt.Errorf("%s has no kernels: put //purecuda:kernel before a function, or write a line //purecuda:instantiate", c.dir)
	}
	in := generate.Input{Package: p.Types, Program: p, Name: c.out, Launch: c.launch}
	var files []file
	var other compile.Module
	image := func(base string, target compile.Target, names ...string) (*compile.Module, error) {
		m, err := p.Compile(compile.Options{Arch: target.Arch, Only: target.Only, Checks: c.checks, Other: other}, names...)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s_%v.ptx", base, target)
		files = append(files, file{name, []byte(m.PTX)})
		in.Images = append(in.Images, generate.Image{File: name, Target: target, Kernel: strings.Join(names, "")})
		return m, nil
	}
	for again := true; again; { // a kernel that reports for one target does so for all
		again, files, in.Images = false, nil, nil
		for _, target := range c.archs {
			var names []string // of the kernels that the target can run
			for _, k := range p.Kernels {
				if target.Has(k.Target) {
					names = append(names, k.Name)
				}
			}
			if len(names) == 0 {
				k := p.Kernels[0]
				return nil, fmt.Errorf("-arch %v: no kernel of the package is for this target: %s needs -arch %v", target, k.Name, k.Target)
			}
			if c.launch {
				m, err := image(strings.TrimSuffix(strings.TrimSuffix(c.out, ".go"), "_gpu"), target, names...)
				if err != nil {
					return nil, err
				}
				again = merge(p, m, other) || again
				other, in.Kernels, in.Sites = *m, m.Kernels, m.Sites
				continue
			}
			for _, name := range names {
				m, err := image(strings.ToLower(name), target, name)
				if err != nil {
					return nil, err
				}
				if m.Kernels[0].Report {
					return nil, fmt.Errorf("%s reports, and without launches nobody could read it: set checks=off or checks=trap", name)
				}
				merge(p, m, other)
				other.Kernels = m.Kernels
				in.Kernels = m.Kernels
			}
		}
	}
	for i, k := range p.Kernels {
		switch {
		case slices.ContainsFunc(in.Kernels, func(of *compile.Kernel) bool { return of.Source == k }):
		case k.Of != nil && i > k.Of.First: // a library has another kernel for other targets
			in.Kernels = slices.Insert(in.Kernels, i, &compile.Kernel{Source: k})
		default:
			return nil, fmt.Errorf("%s is for %v: give gpuc -arch %v", k.Name, k.Target, k.Target)
		}
	}
	text, err := generate.Go(in)
	if err != nil {
		return nil, err
	}
	if err := p.Check(filepath.Join(dir, c.out), text); err != nil {
		return nil, err
	}
	test, err := generate.Test(p, dir, c.out)
	if err != nil {
		return nil, err
	}
	return append(files, file{c.out, text}, file{strings.TrimSuffix(c.out, ".go") + "_test.go", test}), nil
}

// merge adds the kernels that a module has for other targets alone, in the order of the package, and reports whether one
// reports for one target only. A kernel of both gets the larger stack.
func merge(p *compile.Program, m *compile.Module, other compile.Module) (differ bool) {
	for _, k := range other.Kernels {
		i := slices.IndexFunc(m.Kernels, func(of *compile.Kernel) bool { return of.Source == k.Source })
		if i < 0 {
			m.Kernels = append(m.Kernels, k)
			continue
		}
		differ = differ || m.Kernels[i].Report != k.Report
		m.Kernels[i].Stack = max(m.Kernels[i].Stack, k.Stack)
	}
	slices.SortFunc(m.Kernels, func(a, b *compile.Kernel) int {
		return slices.Index(p.Kernels, a.Source) - slices.Index(p.Kernels, b.Source)
	})
	return differ
}

// stub writes the Go file before the kernels are compiled: the package of the kernels may use what is in it.
func stub(p *compile.Program) ([]byte, error) {
	in := generate.Input{Package: p.Types, Program: p, Stub: true, Launch: true}
	for _, k := range p.Kernels {
		in.Kernels = append(in.Kernels, &compile.Kernel{Source: k})
	}
	return generate.Go(in)
}
