package compile

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Kernels are compiled at once, each for itself. So a kernel counts its own checks, declarations and files. Its text has marks in
// their place. The module sets its numbers for them, kernel by kernel in the order of the source: its text is the same each time.

// unit is what a kernel adds to its module.
type unit struct {
	sites []string // of its checks
	decls []decl   // tables, texts and functions of the system
	files []string // that a profiler is told of
}

// decl is a declaration of a module. Its name has a mark, where several of the kernels have one of the same name.
type decl struct {
	head, name, tail string // all of it, in this order; without a name it is a whole one
	size             int64  // of a table in constant memory
	at               *Error // where it is needed
}

// The marks: the number of a check, what comes behind the name of a declaration, the number of a file.
const markSite, markDecl, markFile = "s", "d", "f"

// markLabel is before a label until its function is written. No name in Go has it.
const markLabel = "\x01"

// mark stands in a text for what the module knows.
func mark(of string, i int) string { return "\x00" + of + strconv.Itoa(i) + "\x00" }

// find is the number of something in a list. It is added if it is not there.
func find[T any](list *[]T, v T, same func(T) bool) int {
	i := slices.IndexFunc(*list, same)
	if i < 0 {
		i = len(*list)
		*list = append(*list, v)
	}
	return i
}

// linker makes a module of kernels.
type linker struct {
	sites []string
	site  map[string]int
	decls []string
	names map[string][]string // by the name of a table, the tails of those that have it
	texts map[string]string   // by its tail, what comes behind the name of a text
	total int64               // bytes of constant memory
	files []string
}

// link gives a text of a kernel its numbers and names.
func (l *linker) link(u *unit, text string) (string, error) {
	sites, decls, files := make([]string, len(u.sites)), make([]string, len(u.decls)), make([]string, len(u.files))
	for i, s := range u.sites {
		n, ok := l.site[s]
		if !ok {
			n = len(l.sites)
			l.site[s] = n
			l.sites = append(l.sites, s)
		}
		sites[i] = strconv.Itoa(n + 1)
	}
	for i, d := range u.decls {
		var err error
		if decls[i], err = l.declare(d); err != nil {
			return "", err
		}
	}
	for i, f := range u.files {
		files[i] = strconv.Itoa(find(&l.files, f, func(other string) bool { return other == f }) + 1)
	}
	numbers := map[string][]string{markSite: sites, markDecl: decls, markFile: files}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "\x00")
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		m, behind, _ := strings.Cut(rest, "\x00")
		n, _ := strconv.Atoi(m[1:])
		b.WriteString(numbers[m[:1]][n])
		text = behind
	}
}

// declare adds a declaration to the module, and gives what stands for its mark.
func (l *linker) declare(d decl) (string, error) {
	switch {
	case d.name == "":
		if !slices.Contains(l.decls, d.head) {
			l.decls = append(l.decls, d.head)
		}
		return "", nil
	case d.size == 0: // a text
		n, ok := l.texts[d.tail]
		if !ok {
			n = strconv.Itoa(len(l.decls))
			l.texts[d.tail] = n
			l.decls = append(l.decls, d.head+d.name+n+d.tail)
		}
		return n, nil
	}
	// Tables of two packages can have one name: then they are told apart by what they hold.
	suffix := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint("$$", n)
	}
	if n := slices.Index(l.names[d.name], d.tail); n >= 0 {
		return suffix(n), nil
	}
	if total := l.total + d.size; total > maxConst {
		d.at.Msg = fmt.Sprintf("with the table %s, those of all kernels of the package have %d bytes; constant memory has %d: give it as a parameter", tableName(d.name), total, maxConst)
		return "", d.at
	}
	l.total += (d.size + 15) &^ 15
	n := len(l.names[d.name])
	l.names[d.name] = append(l.names[d.name], d.tail)
	l.decls = append(l.decls, d.head+d.name+suffix(n)+d.tail)
	return suffix(n), nil
}

// compileAll compiles kernels on all cores. Where some do not compile, the error is that of the first in the list.
func (p *Program) compileAll(list []*Source, o Options) ([]*Kernel, error) {
	kernels, errs := make([]*Kernel, len(list)), make([]error, len(list))
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for range min(goruntime.GOMAXPROCS(0), len(list)) {
		workers.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1) - 1)
				if i >= len(list) {
					return
				}
				if errs[i] = p.symbol(list[i]); errs[i] == nil {
					kernels[i], errs[i] = p.kernel(list[i], o)
				}
				if errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	for _, err := range errs { // those before the first were begun before it
		if err != nil {
			return nil, err
		}
	}
	return kernels, nil
}
