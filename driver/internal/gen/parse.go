package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// group is a chapter of the API.
type group struct {
	title, page string
	entries     []*entry
}

// entry is one function of the driver API.
type entry struct {
	name                       string
	variants                   []variant
	required, needsContext, by bool     // by: the method passes a structure by value
	rules                      []string // of the simulated driver
	fails                      []string // what Chaos makes it fail with
	refused                    string   // why the simulated driver does not have it
	c                          string
	returns                    string   // of C, if that is no status
	brought                    string   // the version of a library that brings it, or ""
	header                     string   // the version of the header that has it, or "" for all
	others                     []string // older names with the same signature
	method                     string
	args                       []arg
	api                        string // signature of the hand-written method, if any
	doc                        []string
}

type variant struct {
	version int
	suffix  string
}

// arg is one parameter of the C function.
type arg struct {
	name, typ string
	out, ref  bool
	word      bool   // a structure of C of 8 bytes, passed by value
	null      bool   // C gets NULL, and the method lacks it
	count     string // of a list: the type of the parameter of C that counts it, behind it
	low, high string // bounds, Go expressions, or ""
	handle    bool   // is not 0
}

func parseEntries(file string, handles []string) ([]*group, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseFunctions(file, strings.Split(string(text), "\n"), handles)
}

// parseFunctions parses the lines of a list.
func parseFunctions(file string, lines, handles []string) ([]*group, error) {
	var groups []*group
	var e *entry
	for i, line := range lines {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s", file, i+1, fmt.Sprintf(format, args...))
		}
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "== "):
			title, page, _ := strings.Cut(line[3:], " | ")
			groups = append(groups, &group{title: title, page: page})
		case strings.HasPrefix(line, "api "): // a method of several functions
			e = &entry{by: true, api: line[4:]}
			g := groups[len(groups)-1]
			g.entries = append(g.entries, e)
		case !strings.HasPrefix(line, "\t"):
			e = &entry{}
			if err := e.parseHead(strings.Fields(line)); err != nil {
				return nil, fail("%v", err)
			}
			g := groups[len(groups)-1]
			g.entries = append(g.entries, e)
		case strings.HasPrefix(trimmed, "c "):
			e.c = trimmed[2:]
		case strings.HasPrefix(trimmed, "go "):
			if err := e.parseSignature(trimmed[3:], handles); err != nil {
				return nil, fail("%v", err)
			}
		case strings.HasPrefix(trimmed, "api "):
			e.api = trimmed[4:]
		case strings.HasPrefix(trimmed, "fails "):
			e.fails = strings.Fields(trimmed[6:])
		case strings.HasPrefix(trimmed, "returns "):
			e.returns = trimmed[8:]
		case strings.HasPrefix(trimmed, "refused "):
			e.refused = trimmed[8:]
		default:
			e.doc = append(e.doc, trimmed)
		}
	}
	for _, g := range groups {
		for _, e := range g.entries {
			have := len(e.args)
			for _, a := range e.args {
				if a.count != "" {
					have++
				}
			}
			if want := countC(e.c); want != have && e.method != "" {
				return nil, fmt.Errorf("%s: %s has %d C parameters and %d Go ones", file, e.name, want, have)
			}
		}
	}
	return groups, nil
}

func (e *entry) parseHead(fields []string) error {
	e.name = fields[0]
	for i := 1; i < len(fields); i++ {
		switch fields[i] {
		case "|":
		case "required":
			e.required = true
		case "ctx":
			e.needsContext = true
		case "hand":
			e.by = true
		case "since", "or":
			if i+1 == len(fields) {
				return fmt.Errorf("%s: nothing follows %s", e.name, fields[i])
			}
			i++
			if fields[i-1] == "since" {
				e.brought = fields[i]
			} else {
				e.others = append(e.others, fields[i])
			}
		case "early", "harmless", "hot", "work", "cold", "unsafe":
			e.rules = append(e.rules, fields[i])
		default:
			if after, ok := strings.CutPrefix(fields[i], "@"); ok {
				e.header = after
				continue
			}
			version, err := strconv.Atoi(fields[i])
			if err != nil || i+1 == len(fields) {
				return fmt.Errorf("%s: want VERSION SUFFIX, got %q", e.name, fields[i])
			}
			i++
			suffix := fields[i]
			if suffix == "-" {
				suffix = ""
			}
			e.variants = append(e.variants, variant{version, suffix})
		}
	}
	return nil
}

func (e *entry) parseSignature(s string, handles []string) error {
	name, rest, ok := strings.Cut(s, "(")
	if !ok {
		return fmt.Errorf("bad signature %q", s)
	}
	e.method = name
	for _, p := range strings.Split(strings.TrimSuffix(rest, ")"), ", ") {
		words := strings.Fields(p)
		if len(words) == 0 {
			continue
		}
		var a arg
		switch words[0] {
		case "out":
			a.out, words = true, words[1:]
		case "ref":
			a.ref, words = true, words[1:]
		case "word":
			a.word, words = true, words[1:]
		case "null":
			e.args = append(e.args, arg{null: true})
			continue
		case "list":
			a.count, words = words[3], words[1:3]
		}
		a.name, a.typ = words[0], words[1]
		switch {
		case len(words) == 3:
			a.low, a.high, _ = strings.Cut(words[2], "..")
		case a.typ == "Device":
			a.low, a.high = "0", "math.MaxInt32"
		}
		a.handle = len(words) == 2 && slices.Contains(handles, a.typ)
		e.args = append(e.args, a)
	}
	return nil
}

func countC(prototype string) int {
	if prototype == "void" {
		return 0
	}
	return strings.Count(prototype, ",") + 1
}

// enum is a type with its constants.
type enum struct {
	typ, base, c string
	since        string // CUDA version, "" for any
	doc          []string
	values       []value
}

type value struct {
	since   string // CUDA version, "" for the type's
	name, c string
	number  int64
	text    string
}

func parseConstants(file string) ([]*enum, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseEnums(file, strings.Split(string(text), "\n"))
}

// parseEnums parses the lines of a list.
func parseEnums(file string, lines []string) ([]*enum, error) {
	var enums []*enum
	for i, line := range lines {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "==":
			e := &enum{typ: fields[1], base: fields[2], c: fields[3]}
			if len(fields) > 4 {
				e.since = strings.TrimPrefix(fields[4], "@")
			}
			enums = append(enums, e)
		case fields[0] == "#":
			if len(enums) > 0 {
				e := enums[len(enums)-1]
				e.doc = append(e.doc, strings.TrimPrefix(line, "# "))
			}
		default:
			var v value
			e := enums[len(enums)-1]
			v.since = e.since
			if since, ok := strings.CutPrefix(fields[0], "@"); ok {
				v.since = since
				fields = fields[1:]
			}
			n, err := strconv.ParseInt(fields[2], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %v", file, i+1, err)
			}
			v.name, v.c, v.number, v.text = fields[0], fields[1], n, strings.Join(fields[3:], " ")
			e.values = append(e.values, v)
		}
	}
	return enums, nil
}
